package train

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// clipTypes are the choices of Config.ClipPrecision.
var clipTypes = map[string]torch.DType{"": torch.Float32, "fp32": torch.Float32, "bf16": torch.BFloat16, "fp16": torch.Float16}

// openClip opens the image-text model of a run.
func (c *Config) openClip(d torch.Device) (*clip.Model, error) {
	o := clip.Options{DType: clipTypes[c.ClipPrecision], Device: d, Pixels: c.Pixels()}
	if c.Clip == BuiltinClip {
		return clip.OpenBuiltin(o)
	}
	return clip.Open(c.Clip, o)
}

// labelSettings are the settings of the labeller.
func (c *Config) labelSettings() (vlm.Settings, error) {
	method := vlm.DAMP
	if e, err := loss.Lookup(c.Method); err == nil && e.Estimator == "vlpl" {
		method = vlm.VLPL
	}
	s, err := vlm.Preset(method, c.Preset, c.Form)
	if err != nil {
		return s, err
	}
	s.Seed, s.ApplyEXIF, s.MaxPixels = c.Seed, c.Pixels().ApplyEXIF, int64(c.MaxPixels)
	for part := range strings.FieldsFuncSeq(c.PseudoOptions, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return s, fmt.Errorf("pseudo_options %q: want NAME=VALUE, for instance tau=0.03", part)
		}
		if err := s.Assign(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return s, err
		}
	}
	if c.TextFeatures != "" {
		s.TextFeatures = c.TextFeatures
	}
	return s, s.Check()
}

// prompts are what stands for the classes in prompts, nil for the data set's own names.
func (c *Config) prompts() ([]string, error) {
	if c.ClassNames == "" {
		return nil, nil
	}
	return vlm.ReadNames(c.ClassNames)
}

// resolvePseudo says where pseudo-labels come from.
func (c *Config) resolvePseudo(e *loss.Entry) error {
	fail := func(format string, a ...any) error { return &ConfigError{Msg: fmt.Sprintf(format, a...)} }
	if _, ok := clipTypes[c.ClipPrecision]; !ok {
		return fail("clip_precision %q is none of fp32, bf16, fp16", c.ClipPrecision)
	}
	if e.Needs&loss.PseudoLabels == 0 {
		if c.PseudoOptions != "" || c.TextFeatures != "" {
			return fail("pseudo_options and text_features are for methods with pseudo-labels, which %s has not", e.ID)
		}
		if c.ClassNames != "" && c.Head != HeadDualCoOp {
			return fail("class_names are for methods with prompts (pseudo-labels of --clip, dualcoop), which %s has not", e.ID)
		}
		return nil
	}
	if c.PseudoLabels == "" && c.Clip == "" && c.Data == ShapesName {
		c.Clip = BuiltinClip
	}
	switch {
	case c.PseudoLabels == "" && c.Clip == "":
		return fail("%s needs pseudo-labels from an image-text model; give --clip MODEL to make them while training, or --pseudo-labels FILE.npy with 1, 0 and -1 for each image and class (spml pseudo-label makes one)", e.ID)
	case c.PseudoLabels != "" && c.Clip != "":
		return fail("pseudo-labels come from --clip or from --pseudo-labels, not from both")
	case c.PseudoLabels != "":
		if c.PseudoOptions != "" || c.TextFeatures != "" || c.ClassNames != "" {
			return fail("pseudo_options, text_features and class_names are for --clip; a file's labels are done")
		}
		return nil
	}
	def(&c.ClipPrecision, "fp32")
	if _, err := c.labelSettings(); err != nil {
		return fail("%v", err)
	}
	return nil
}

// absoluteOptions makes the paths in pseudo-label options independent of the working folder.
func absoluteOptions(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	var parts []string
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		if n := strings.TrimSpace(name); (n == "text_features" || n == "relation") && value != "" {
			a, err := filepath.Abs(strings.TrimSpace(value))
			if err != nil {
				return "", err
			}
			part = n + "=" + a
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ","), nil
}
