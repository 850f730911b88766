package onnx

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/onnx/internal/onnxpb"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// folder is a model folder of a small network.
func folder(t *testing.T) (dir string, m backbone.Model, mc model.Config) {
	m, err := backbone.New("small_cnn", 2, nn.Generator(torch.NewGenerator(1)))
	require.NoError(t, err)
	stirred(m)
	mc = model.Config{
		Architecture: "small_cnn", NumClasses: 2, NumFeatures: 128, LabelNames: []string{"sea", "Mü\"ller"}, Threshold: 0.5,
		PretrainedCfg: model.Input{InputSize: [3]int{3, 40, 48}, Interpolation: "bilinear", CropMode: "squash", CropPct: 1,
			Mean: [3]float32{0.4, 0.5, 0.6}, Std: [3]float32{0.2, 0.3, 0.25}, EXIF: "apply"},
	}
	dir = filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, model.Save(dir, mc, nn.StateDictOf(m)))
	return dir, m, mc
}

func opened(t *testing.T, path string) (*onnxpb.ModelProto, map[string]string) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	m := &onnxpb.ModelProto{}
	require.NoError(t, proto.Unmarshal(b, m))
	props := map[string]string{}
	for _, p := range m.MetadataProps {
		props[p.GetKey()] = p.GetValue()
	}
	return m, props
}

// TestExport: a file has the network, for each kind of input, and says what it is.
func TestExport(t *testing.T) {
	dir, net, mc := folder(t)
	for _, input := range Inputs {
		to := filepath.Join(t.TempDir(), "m.onnx")
		require.NoError(t, Export(dir, to, Options{Input: input, Thresholds: []float64{0.25, 0.75}}))
		m, props := opened(t, to)
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() {
				v := torch.Randint(0, 256, torch.S(2, 3, 40, 48), torch.Uint8)
				unit := v.ToDType(torch.Float32).DivScalar(255)
				c := mc.PretrainedCfg
				x := unit.Sub(torch.FromSlice(c.Mean[:], 3, 1, 1)).Div(torch.FromSlice(c.Std[:], 3, 1, 1))
				given := map[Input]*torch.Tensor{Normalized: x, Unit: unit, Bytes: v}[input]
				got := evaluate(t, m, map[string]*torch.Tensor{images: given})
				near(t, floats(net.Forward(x)), floats(got[logits]), 1e-5, string(input))
			})
		})
		kind := m.Graph.Input[0].Type.GetTensorType()
		require.Equal(t, input == Bytes, kind.GetElemType() == int32(onnxpb.TensorProto_UINT8))
		require.Equal(t, "batch", kind.Shape.Dim[0].GetDimParam())
		require.JSONEq(t, `["sea", "Mü\"ller"]`, props["classes"])
		require.JSONEq(t, `[0.25, 0.75]`, props["thresholds"])
		var p map[string]any
		require.NoError(t, json.Unmarshal([]byte(props["preprocessing"]), &p))
		require.Equal(t, string(input), p["input"])
		require.Equal(t, "apply", p["exif"])
		require.Equal(t, input == Normalized, p["mean"] != nil, "who normalises outside needs the numbers")
		var again model.Config
		require.NoError(t, json.Unmarshal([]byte(props["config.json"]), &again))
		require.Equal(t, mc.PretrainedCfg, again.PretrainedCfg)
	}
}

// TestExportFeatures: a head on stored features takes features.
func TestExportFeatures(t *testing.T) {
	l := nn.NewLinear(7, 2)
	mc := model.Config{
		Architecture: "resnet50", NumClasses: 2, NumFeatures: 7, LabelNames: []string{"a", "b"}, Threshold: 0.5,
		FeaturesOnly: true, PretrainedCfg: model.Input{InputSize: [3]int{3, 224, 224}},
	}
	dir := t.TempDir()
	require.NoError(t, model.Save(dir, mc, nn.StateDictOf(l)))
	to := filepath.Join(dir, "m.onnx")
	require.NoError(t, Export(dir, to, Options{}))
	m, props := opened(t, to)
	x := torch.Randn(torch.S(5, 7))
	got := evaluate(t, m, map[string]*torch.Tensor{features: x})
	near(t, floats(l.Forward(x)), floats(got[logits]), 1e-6, "features")
	require.NotContains(t, props, "preprocessing")
}

// TestExportRefuses: what cannot be written is one sentence, and no file is left.
func TestExportRefuses(t *testing.T) {
	dir, _, _ := folder(t)
	to := filepath.Join(t.TempDir(), "m.onnx")
	var setting *fault.Setting
	require.ErrorAs(t, Export(dir, to, Options{Input: "raw"}), &setting)
	require.ErrorContains(t, setting, "normalized, unit, bytes")
	require.ErrorContains(t, Export(dir, to, Options{Thresholds: []float64{1}}), "1 thresholds for the 2 classes")
	require.ErrorIs(t, Export(filepath.Join(dir, "none"), to, Options{}), fs.ErrNotExist)
	int8, _, mc := folder(t)
	mc.Quantized = &model.Quantized{Form: model.FormInt8}
	require.NoError(t, model.Save(int8, mc, nn.StateDict{}))
	require.ErrorContains(t, Export(int8, to, Options{}), "predicts in int8")
	before := largest
	defer func() { largest = before }()
	largest = 1 << 20
	require.ErrorContains(t, Export(dir, to, Options{}), "holds 2 GB at most; --to safetensors")
	largest = before
	require.NoFileExists(t, to)
	require.NoError(t, Export(dir, to, Options{}))
	require.ErrorIs(t, Export(dir, to, Options{}), fs.ErrExist)
}

// TestTaggersStaySmall: a program that only tags does not link protobuf.
func TestTaggersStaySmall(t *testing.T) {
	deps := func(pkg string) string {
		cmd := exec.Command("go", "list", "-deps", pkg)
		cmd.Dir = testroot.Module()
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	const protobuf = "google.golang.org/protobuf/proto\n"
	require.NotContains(t, deps("./spml/model"), protobuf)
	require.Contains(t, deps("./spml/onnx"), protobuf)
	require.False(t, strings.Contains(deps("./spml/train"), "/spml/onnx"))
}
