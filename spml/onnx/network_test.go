package onnx

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/onnx/internal/onnxpb"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// engines is a Python with onnx, onnxruntime and openvino, as `make bench-infer` makes one.
func engines(t *testing.T) string {
	cache := os.Getenv("GOSPML_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		require.NoError(t, err)
		cache = filepath.Join(dir, "gospml")
	}
	python := filepath.Join(cache, "peers-infer", "bin", "python")
	if out, err := exec.Command(python, "-c", "import onnx, onnxruntime, openvino").CombinedOutput(); err != nil {
		t.Skipf("no Python with ONNX Runtime and OpenVINO; `make bench-infer` makes one: %v %s", err, out)
	}
	return python
}

// run lets the engines compute every file of a folder.
func run(t *testing.T, dir string) {
	cmd := exec.Command(engines(t), filepath.Join("testdata", "engines.py"), dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// stirred is a model in evaluation mode whose every tensor matters.
func stirred(m backbone.Model) backbone.Model {
	g := torch.NewGenerator(3)
	torch.NoGrad(func() {
		nn.Walk(m, func(e nn.Entry) {
			switch {
			case !e.Tensor.DType().IsFloat():
			case strings.HasSuffix(e.Key, "running_var"):
				nn.Uniform_(e.Tensor, 0.5, 2, g)
			case strings.HasSuffix(e.Key, "gamma"):
				nn.Uniform_(e.Tensor, 0.2, 0.6, g)
			case e.Tensor.Dim() == 1 && strings.HasSuffix(e.Key, "weight"):
				nn.Uniform_(e.Tensor, 0.7, 1.3, g)
			case e.Tensor.Dim() == 1, strings.HasSuffix(e.Key, "running_mean"):
				nn.Uniform_(e.Tensor, -0.2, 0.2, g)
			case strings.HasSuffix(e.Key, "cls_token"), strings.HasSuffix(e.Key, "pos_embed"):
				nn.Uniform_(e.Tensor, -0.5, 0.5, g)
			}
		})
	})
	nn.SetTraining(m, false)
	return m
}

// headed gives a body a head.
func headed(t *testing.T, body backbone.Model, classes int, s model.HeadSpec) backbone.Model {
	m, err := model.WithHead(body, s, classes, torch.NewGenerator(4))
	require.NoError(t, err)
	return m
}

// tower is a network made of a small CLIP with a vision transformer, with a linear head or learned prompts.
func tower(t *testing.T, prompts bool) backbone.Model {
	m, _, err := clip.Load(testroot.Shared(t, "data", "clip_tiny", "openai_vit"), clip.LoadOptions{})
	require.NoError(t, err)
	if !prompts {
		return model.NewClipClassifier(m, 4, nn.Generator(torch.NewGenerator(2)))
	}
	d, err := dualcoop.Blank(m.Config, 3, 4, dualcoop.Config{Context: 2, ImageNet: true})
	require.NoError(t, err)
	nn.StateDictOf(m).Free()
	torch.NoGrad(func() {
		for i, c := range []*torch.Tensor{d.CtxPos, d.CtxNeg} {
			nn.Normal_(c, 0, 0.5, torch.NewGenerator(int64(5+i)))
		}
		d.Tokens.Copy_(torch.FromSlice([]int64{1, 2, 3, 4, 1, 5, 6, 4, 1, 7, 4, 0}, 3, 4))
		d.Ends.Copy_(torch.FromSlice([]int64{3, 3, 2}, 3))
	})
	return d
}

// small are networks with every kind of layer and head, few channels, for images of 64 × 96 pixels.
func small(t *testing.T) map[string]backbone.Model {
	vit := func(dino, siglip bool) backbone.Model {
		return backbone.NewViT(backbone.ViTConfig{ImageSize: 64, PatchSize: 16, Dim: 36, Depth: 2, NumHeads: 3,
			LayerScale: dino, Pool: siglip}, 5)
	}
	basic := func() backbone.Model { return backbone.NewResNet(backbone.BasicBlocks, [4]int{1, 1, 1, 1}, 6) }
	return map[string]backbone.Model{
		"basic":         backbone.NewResNet(backbone.BasicBlocks, [4]int{2, 1, 1, 1}, 5),
		"bottleneck":    backbone.NewResNet(backbone.Bottlenecks, [4]int{1, 2, 1, 1}, 33),
		"squeezenet1_0": backbone.NewSqueezeNet("squeezenet1_0", 1),
		"squeezenet1_1": backbone.NewSqueezeNet("squeezenet1_1", 5),
		"mobilenet_v2":  backbone.NewMobileNetV2(7),
		"small_cnn":     backbone.NewSmallCNN(12),
		"convnext":      backbone.NewConvNeXt([4]int{1, 2, 1, 1}, [4]int{8, 17, 24, 50}, 5),
		"vit":           vit(false, false), "dinov2": vit(true, false), "siglip": vit(false, true),
		"lac":           headed(t, basic(), 6, model.HeadSpec{Head: model.HeadDecoder}),
		"lac narrow":    headed(t, basic(), 6, model.HeadSpec{Head: model.HeadDecoder, Dim: 16, Projection: -1}),
		"lac on a vit":  headed(t, vit(false, false), 5, model.HeadSpec{Head: model.HeadDecoder, Dim: 8}),
		"lac on siglip": headed(t, vit(false, true), 5, model.HeadSpec{Head: model.HeadDecoder, Dim: 8}),
		"mime":          headed(t, basic(), 6, model.HeadSpec{Head: model.HeadDecoder, Dim: 16, Latent: 4}),
		"smile":         headed(t, basic(), 6, model.HeadSpec{Head: model.HeadDecoder, Dim: 16, Latent: 4, LatentBeta: true}),
		"ml-decoder":    headed(t, basic(), 6, model.HeadSpec{Head: model.HeadMLDecoder, Dim: 16}),
		"ml-decoder of groups": headed(t, backbone.NewResNet(backbone.BasicBlocks, [4]int{1, 1, 1, 1}, 130), 130,
			model.HeadSpec{Head: model.HeadMLDecoder, Dim: 16}),
		"clip": tower(t, false), "dualcoop": tower(t, true),
		"boostlu": headed(t, basic(), 6, model.HeadSpec{Head: model.HeadBoostLU, Boost: 5}),
	}
}

// file is the ONNX file of a network.
func file(t *testing.T, m backbone.Model, h, w int) *onnxpb.ModelProto {
	out := &onnxpb.ModelProto{}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			d, err := model.Describe(m)
			require.NoError(t, err)
			f := newWriter()
			f.graph.Input = []*onnxpb.ValueInfoProto{value(images, onnxpb.TensorProto_FLOAT, 3, h, w)}
			f.logits(d, images, h, w)
			require.NoError(t, f.pending)
			classes := m.Forward(torch.Zeros(torch.S(1, 3, h, w))).Size(1)
			f.finish(out, classes)
		})
	})
	return out
}

// TestNoDescription: a network whose layers nothing here writes is an error that says which.
func TestNoDescription(t *testing.T) {
	m, _, err := clip.Load(testroot.Shared(t, "data", "clip_tiny", "openai_rn"), clip.LoadOptions{})
	require.NoError(t, err)
	_, err = model.Describe(model.NewClipClassifier(m, 4))
	require.ErrorIs(t, err, backbone.ErrForm)
	require.ErrorContains(t, err, "image tower")
}

// near compares numbers with the largest one.
func near(t *testing.T, want, got []float32, bound float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	top, apart := 1.0, 0.0
	for i, w := range want {
		top = math.Max(top, math.Abs(float64(w)))
		if d := math.Abs(float64(w - got[i])); !(d <= apart) {
			apart = d
		}
	}
	assert.LessOrEqual(t, apart, bound*top, what)
}

func floats(x *torch.Tensor) []float32 { return torch.ToSlice[float32](x.Detach().Contiguous()) }

// saved writes numbers for Python.
func saved[T npy.Element](t *testing.T, path string, shape []int64, v []T) {
	a, err := npy.New(shape, v)
	require.NoError(t, err)
	require.NoError(t, npy.Write(path, a))
}

func read(t *testing.T, path string) []float32 {
	a, err := npy.Read(path)
	require.NoError(t, err)
	v, err := a.Float32()
	require.NoError(t, err)
	return v
}

// TestNetworks: the graph of every kind of network and head gives its logits, for any batch, computed by libtorch's
// operators node by node.
func TestNetworks(t *testing.T) {
	for name, m := range small(t) {
		m = stirred(m)
		f := file(t, m, 64, 96)
		everyConstantIsRead(t, name, f)
		for _, n := range []int{1, 3} {
			torch.Scope(func(*torch.Arena) {
				torch.Inference(func() {
					x := nn.Normal_(torch.Empty(torch.S(n, 3, 64, 96)), 0, 1, torch.NewGenerator(9))
					got := evaluate(t, f, map[string]*torch.Tensor{images: x})
					want := m.Forward(x)
					require.Equal(t, want.Shape(), got[logits].Shape(), name)
					near(t, floats(want), floats(got[logits]), 1e-5, fmt.Sprint(name, " ", n))
					near(t, floats(want.Sigmoid()), floats(got[probabilities]), 1e-5, name)
				})
			})
		}
	}
}

// given is a network's file for the engines, with inputs of 1 and of 3 images, and what they have to give.
func given(t *testing.T, dir, name string, m backbone.Model, h, w int) map[string][]float32 {
	wants := map[string][]float32{}
	b, err := proto.Marshal(file(t, m, h, w))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".onnx"), b, 0o644))
	for _, n := range []int{1, 3} {
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() {
				x := nn.Normal_(torch.Empty(torch.S(n, 3, h, w)), 0, 1, torch.NewGenerator(9))
				path := filepath.Join(dir, fmt.Sprintf("%s.%d", name, n))
				saved(t, path+".npy", []int64{int64(n), 3, int64(h), int64(w)}, floats(x))
				z := m.Forward(x)
				wants[path] = append(floats(z), floats(z.Sigmoid())...)
			})
		})
	}
	return wants
}

// compared runs a folder and compares.
func compared(t *testing.T, dir string, wants map[string][]float32) {
	run(t, dir)
	for path, want := range wants {
		for _, engine := range []string{"onnxruntime", "openvino"} {
			near(t, want, read(t, path+"."+engine+".npy"), 1e-5, filepath.Base(path)+" "+engine)
		}
	}
}

// everyConstantIsRead: no weights lie in a file for nothing.
func everyConstantIsRead(t *testing.T, name string, m *onnxpb.ModelProto) {
	read := map[string]bool{}
	for _, n := range m.Graph.Node {
		for _, in := range n.Input {
			read[in] = true
		}
	}
	for _, c := range m.Graph.Initializer {
		require.True(t, read[c.GetName()], "%s: %s %v", name, c.GetName(), c.Dims)
	}
}

// TestEngines: ONNX's own checker takes the files, and ONNX Runtime and OpenVINO give the same logits.
func TestEngines(t *testing.T) {
	engines(t)
	dir, wants := t.TempDir(), map[string][]float32{}
	for name, m := range small(t) {
		maps.Copy(wants, given(t, dir, name, stirred(m), 64, 96))
	}
	compared(t, dir, wants)
}

// TestEnginesNamed: so do the backbones of the sizes that people use.
func TestEnginesNamed(t *testing.T) {
	engines(t)
	names := []string{"mobilenet_v2"}
	if testroot.Nightly() {
		names = backbone.Names()[:min(len(backbone.Names()), testroot.Count(t, "GOSPML_ONNX_NETWORKS", 1, 99))]
	}
	for _, name := range names {
		dir := t.TempDir()
		m, err := backbone.New(name, 20, nn.Generator(torch.NewGenerator(1)))
		require.NoError(t, err)
		compared(t, dir, given(t, dir, name, stirred(m), 224, 224))
		nn.StateDictOf(m).Free()
		require.NoError(t, os.RemoveAll(dir)) // up to 2 GB
	}
}
