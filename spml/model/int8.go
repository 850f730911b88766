package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ShiftsFile holds, in the folder of an int8 model, what its steps add to their biases: "step.N" [C].
const ShiftsFile = "int8.safetensors"

// FormInt8 is the form of a model that predicts with integers of 8 bits.
const FormInt8 = "int8"

// Quantized says that a folder's model predicts with integers: by which scales, and on how many photos these were
// chosen. Its weights lie in the folder as floats and become integers when it is opened.
type Quantized struct {
	Form   string           `json:"form"` // FormInt8
	Photos int              `json:"photos"`
	Scales []backbone.Scale `json:"scales"` // of the input and the activations; see backbone.Calibration
}

// Calibrate is backbone.Calibrate of a network's backbone.
func Calibrate(m backbone.Model, photos backbone.Photos) (*backbone.Calibration, error) {
	return backbone.Calibrate(Base(m), photos)
}

// Quantize is [Freeze] in int8; see [backbone.Quantize]. A head over feature maps stays as it is and is shared with m.
func Quantize(m backbone.Model, c *backbone.Calibration) (backbone.Model, error) {
	switch h := m.(type) {
	case *decoded:
		body, err := backbone.Quantize(h.Body, c)
		return &decoded{Body: body, Decoder: h.Decoder, dim: h.dim}, err
	case *grouped:
		body, err := backbone.Quantize(h.Body, c)
		return &grouped{Body: body, ML: h.ML, dim: h.dim}, err
	}
	return backbone.Quantize(m, c)
}

// ExportInt8 writes the saved model of a run directory (or of a model folder) to a folder that must not exist, to
// predict in int8 by a calibration of the same model. thresholds, one of each class, are those that were chosen for the
// scores of that form; nil: the model's own.
func ExportInt8(dir, to string, c *backbone.Calibration, thresholds []float64) (err error) {
	defer caught.Recover(&err)
	if err := Vacant(to); err != nil {
		return err
	}
	from := Dir(dir)
	mc, err := readConfig(from)
	if err != nil {
		return err
	}
	if err := mc.floats(from); err != nil {
		return err
	}
	if thresholds != nil {
		if len(thresholds) != mc.NumClasses {
			return fmt.Errorf("%w: %d thresholds for the %d classes of %s", ErrData, len(thresholds), mc.NumClasses, from)
		}
		mc.Thresholds = thresholds
	}
	mc.Quantized = &Quantized{FormInt8, c.Photos, c.Scales}
	sd, _, err := nn.LoadSafetensors(filepath.Join(from, WeightsFile))
	if err != nil {
		return err
	}
	defer sd.Free()
	shifts := nn.StateDict{}
	for step, values := range c.Shifts {
		shifts["step."+strconv.Itoa(step)] = torch.FromSlice(values, len(values))
	}
	defer shifts.Free()
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := nn.SaveSafetensors(filepath.Join(to, ShiftsFile), shifts, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return Save(to, mc, sd)
}

// Vacant is nil where nothing lies at a path.
func Vacant(to string) error {
	_, err := os.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: %s; remove it, or name another", fs.ErrExist, to)
	}
	return err
}

// floats is an error where a folder holds an int8 model, which predicts and nothing else.
func (mc *Config) floats(dir string) error {
	if mc.Quantized == nil {
		return nil
	}
	return fmt.Errorf("%w: %s holds the int8 form of a model, which predicts and nothing else; take the run that it was "+
		"exported from", ErrData, dir)
}

// int8Of is the int8 form of the network of a folder, which nothing else uses.
func int8Of(dir string, mc *Config, m backbone.Model) (backbone.Model, error) {
	dir = Dir(dir)
	if mc.Quantized.Form != FormInt8 {
		return nil, fmt.Errorf("%w: %s has the form %q, which this program does not know", ErrData, dir, mc.Quantized.Form)
	}
	c := &backbone.Calibration{Photos: mc.Quantized.Photos, Scales: mc.Quantized.Scales, Shifts: map[int][]float32{}}
	path := filepath.Join(dir, ShiftsFile)
	sd, _, err := nn.LoadSafetensors(path)
	if err != nil {
		return nil, err
	}
	defer sd.Free()
	for k, t := range sd {
		step, err := strconv.Atoi(strings.TrimPrefix(k, "step."))
		if err != nil || t.DType() != torch.Float32 {
			return nil, fmt.Errorf("%w: %s: the tensor %s is no float32 of a step", ErrData, path, k)
		}
		c.Shifts[step] = torch.ToSlice[float32](t)
	}
	q, err := Quantize(m, c)
	if errors.Is(err, backbone.ErrInt8) {
		return nil, fmt.Errorf("%w: %s: %w", ErrData, dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s in int8: %w; take the float32 model: spml export RUN OUT without --quantize", dir, err)
	}
	nn.Walk(Base(m), func(e nn.Entry) { e.Tensor.Free() })
	return q, nil
}

// checkInt8 refuses options that an int8 model does not take, and gives its device.
func (opt *TaggerOptions) checkInt8(dir string) error {
	switch {
	case opt.Precision != "" && opt.Precision != FormInt8:
		return fault.Settingf("%s predicts in int8, not in %s; export the run without --quantize", dir, opt.Precision)
	case opt.Device != "" && opt.Device != "auto" && opt.Device != "cpu":
		return fault.Settingf("%s predicts in int8, which is for a CPU, not for %s; export the run without --quantize", dir,
			opt.Device)
	}
	opt.Device = "cpu"
	return nil
}
