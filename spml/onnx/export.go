package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/onnx/internal/onnxpb"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Input is what a file takes.
type Input string

// Inputs. The second and the third have the normalisation inside.
const (
	Normalized Input = "normalized" // (v/255 - mean)/std, float32
	Unit       Input = "unit"       // v/255, float32 in [0, 1]
	Bytes      Input = "bytes"      // v, uint8
)

// Inputs are all of them.
var Inputs = []Input{Normalized, Unit, Bytes}

// Options are the choices of Export.
type Options struct {
	Input Input // "" is Normalized
	// Thresholds of each class, those of train.Calibrate for instance; nil: the model's own.
	Thresholds []float64
}

// Names of inputs and outputs of the graph.
const (
	images        = "images"   // [batch, 3, H, W], colours in the order red, green, blue
	features      = "features" // [batch, D], of a head on stored features
	logits        = "logits"   // [batch, C]
	probabilities = "probabilities"
)

// What a file says of itself: LayerNormalization came with opset 17, which files of version 8 have.
const (
	opset     = 17
	irVersion = 8
)

// largest is protobuf's limit; tests lower it.
var largest = math.MaxInt32

// Export writes the saved model of a run directory, or of a model folder, to a file that must not exist.
func Export(dir, to string, o Options) (err error) {
	defer caught.Recover(&err)
	switch o.Input {
	case "":
		o.Input = Normalized
	case Normalized, Unit, Bytes:
	default:
		return fault.Settingf("no input of an ONNX file is called %q; there are %s, %s, %s", o.Input, Normalized, Unit, Bytes)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%w: %s; remove it, or name another", fs.ErrExist, to)
		}
		return err
	}
	if err := torch.Available(); err != nil {
		return err
	}
	mc, err := model.ReadConfig(dir)
	if err != nil {
		return err
	}
	if mc.Quantized != nil {
		return fmt.Errorf("%w: %s predicts in int8, which is not written as ONNX; export the run that it was made of",
			fault.ErrData, dir)
	}
	if o.Thresholds != nil {
		if len(o.Thresholds) != mc.NumClasses {
			return fmt.Errorf("%w: %d thresholds for the %d classes of %s", fault.ErrData, len(o.Thresholds), mc.NumClasses, dir)
		}
		mc.Thresholds = o.Thresholds
	}
	var b []byte
	if err := compute.Guard(func() error {
		m, err := build(dir, &mc, o.Input)
		if err != nil {
			return err
		}
		if n := proto.Size(m); n > largest {
			return fmt.Errorf("%w: %s takes %.1f GB as an ONNX file, which holds 2 GB at most; --to %s writes its weights",
				fault.ErrData, dir, float64(n)/1e9, model.ExportSafetensors)
		}
		b, err = proto.Marshal(m)
		return err
	}); err != nil {
		return err
	}
	return atomicfile.WriteBytes(to, 0o644, b)
}

// build makes the messages of a file.
func build(dir string, mc *model.Config, input Input) (out *onnxpb.ModelProto, err error) {
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			w := newWriter()
			if mc.FeaturesOnly {
				err = w.head(dir, mc)
			} else {
				err = w.whole(dir, mc, input)
			}
			if err != nil {
				return
			}
			out = &onnxpb.ModelProto{}
			w.finish(out, mc.NumClasses)
			out.MetadataProps, err = metadata(mc, input)
		})
	})
	return out, err
}

// finish makes the result of the last node the logits and the graph that of a file.
func (w *writer) finish(out *onnxpb.ModelProto, classes int) {
	w.rename(logits)
	w.node("Sigmoid", []string{logits})
	w.rename(probabilities)
	for _, name := range []string{logits, probabilities} {
		w.graph.Output = append(w.graph.Output, value(name, onnxpb.TensorProto_FLOAT, classes))
	}
	out.IrVersion, out.ProducerName, out.Graph = proto.Int64(irVersion), proto.String("gospml"), w.graph
	out.OpsetImport = []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}}
}

// whole writes a network.
func (w *writer) whole(dir string, mc *model.Config, input Input) error {
	m, err := model.Open(dir)
	if err != nil {
		return err
	}
	d, err := model.Describe(m.Net)
	if err == nil {
		size := mc.PretrainedCfg.InputSize
		kind := onnxpb.TensorProto_FLOAT
		if input == Bytes {
			kind = onnxpb.TensorProto_UINT8
		}
		w.graph.Input = []*onnxpb.ValueInfoProto{value(images, kind, 3, size[1], size[2])}
		w.logits(d, w.normalized(mc, input), size[1], size[2])
		err = w.pending
	}
	if errors.Is(err, backbone.ErrForm) {
		name := mc.Architecture
		if mc.Head != "" && mc.Head != model.HeadLinear {
			name += " with the head " + mc.Head
		}
		reason := strings.TrimPrefix(err.Error(), "backbone: ")
		return fmt.Errorf("%w: %s has no form in ONNX (%s); --to %s writes it whole", fault.ErrData, name, reason,
			model.ExportTorchScript)
	}
	return err
}

// normalized brings the input to what the network takes.
func (w *writer) normalized(mc *model.Config, input Input) string {
	if input == Normalized {
		return images
	}
	x := images
	if input == Bytes {
		x = w.node("Div", []string{w.node("Cast", []string{x}, "to", int(onnxpb.TensorProto_FLOAT)), w.number(255)})
	}
	c := mc.PretrainedCfg
	x = w.node("Sub", []string{x, w.floats([]int{3, 1, 1}, c.Mean[:])})
	return w.node("Div", []string{x, w.floats([]int{3, 1, 1}, c.Std[:])})
}

// head writes a linear head on stored features.
func (w *writer) head(dir string, mc *model.Config) error {
	l := nn.NewLinear(mc.NumFeatures, mc.NumClasses, nn.NoInit())
	sd, _, err := nn.LoadSafetensors(filepath.Join(model.Dir(dir), model.WeightsFile))
	if err != nil {
		return err
	}
	defer sd.Free()
	if _, err := nn.LoadStateDict(l, sd, true); err != nil {
		return err
	}
	w.graph.Input = []*onnxpb.ValueInfoProto{value(features, onnxpb.TensorProto_FLOAT, mc.NumFeatures)}
	w.linear(features, l.Weight, l.Bias)
	return nil
}

// preprocessing says what a photo becomes before it is an input.
type preprocessing struct {
	Input         Input       `json:"input"`
	Layout        string      `json:"layout"` // NCHW
	Colours       string      `json:"colors"` // RGB
	Height        int         `json:"height"`
	Width         int         `json:"width"`
	Interpolation string      `json:"interpolation"`
	CropMode      string      `json:"crop_mode"`
	CropPct       float64     `json:"crop_pct"`
	EXIF          string      `json:"exif,omitempty"`
	Mean          *[3]float32 `json:"mean,omitempty"` // of what is normalised outside
	Std           *[3]float32 `json:"std,omitempty"`
}

// metadata is what lies beside the graph.
func metadata(mc *model.Config, input Input) (out []*onnxpb.StringStringEntryProto, err error) {
	thresholds := make([]float64, mc.NumClasses)
	for c := range thresholds {
		thresholds[c] = mc.ThresholdOf(c)
	}
	add := func(key string, v any) {
		b, e := json.Marshal(v)
		err = errors.Join(err, e)
		out = append(out, &onnxpb.StringStringEntryProto{Key: &key, Value: proto.String(string(b))})
	}
	add(model.ConfigFile, mc)
	add("classes", mc.LabelNames)
	add("thresholds", thresholds)
	if mc.FeaturesOnly {
		return out, err
	}
	c := mc.PretrainedCfg
	p := preprocessing{
		Input: input, Layout: "NCHW", Colours: "RGB", Height: c.InputSize[1], Width: c.InputSize[2],
		Interpolation: c.Interpolation, CropMode: c.CropMode, CropPct: c.CropPct, EXIF: c.EXIF,
	}
	if input == Normalized {
		p.Mean, p.Std = &c.Mean, &c.Std
	}
	add("preprocessing", p)
	return out, err
}
