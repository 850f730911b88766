package config

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// BuiltinClip as Pseudo.Clip is the small CLIP of this module, which knows drawn shapes only.
const BuiltinClip = model.BuiltinClip

// Pseudo says where pseudo-labels come from, for the methods that want them: a file, or an image-text model that makes
// them for each batch.
type Pseudo struct {
	// File is an .npy file [N, C] with 1, 0 and -1 in the order of the data set.
	File string `yaml:"pseudo_labels,omitempty"`
	// Clip is a file or folder, or BuiltinClip. A method whose head is made of an image-text model takes it too.
	Clip      string `yaml:"clip,omitempty"`
	Precision string `yaml:"clip_precision,omitempty"`
	// Options are settings of the labeller by name (vlm.OptionNames), over those of Method.DataSet and Method.Form.
	Options Options `yaml:"pseudo_options,omitempty"`
	// TextFeatures is an .npy file [C, E] with the model's embeddings of the classes, in place of prompts.
	TextFeatures string `yaml:"text_features,omitempty"`
	// ClassNames is what stands for the classes in that model's prompts: a file with a text for each, or CUBNames
	// (vlm.ReadNames).
	ClassNames string `yaml:"class_names,omitempty"`
}

// Options are values by name. Their text is NAME=VALUE joined by commas or semicolons.
type Options map[string]string

// UnmarshalText reads the text form.
func (o *Options) UnmarshalText(text []byte) error {
	*o = nil
	if err := checkText("pseudo_options", string(text), mostList); err != nil {
		return err
	}
	for part := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return wrong("pseudo_options %.100q: want NAME=VALUE, for instance tau=0.03", part)
		}
		if *o == nil {
			*o = Options{}
		}
		(*o)[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return nil
}

// String is the text form, by name.
func (o Options) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		all = append(all, name+"="+o[name])
	}
	return strings.Join(all, ",")
}

// MarshalText is String, for files.
func (o Options) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// CUBNames as Pseudo.ClassNames are CUB's 312 attributes in words.
const CUBNames = "cub"

// Names are what stands for the classes in prompts, nil for the data set's own names.
func (p Pseudo) Names() ([]string, error) {
	if p.ClassNames == "" {
		return nil, nil
	}
	return vlm.ReadNames(p.ClassNames)
}

// clipTypes are the choices of Pseudo.Precision.
var clipTypes = map[string]torch.DType{
	"":     torch.Float32,
	"fp32": torch.Float32,
	"bf16": torch.BFloat16,
	"fp16": torch.Float16,
}

// OpenClip opens the image-text model of a run.
func (c Config) OpenClip(d torch.Device) (*clip.Model, error) {
	o := clip.Options{DType: clipTypes[c.Pseudo.Precision], Device: d, Pixels: c.Data.Pixels()}
	if c.Pseudo.Clip == BuiltinClip {
		return clip.OpenBuiltin(o)
	}
	return clip.Open(c.Pseudo.Clip, o)
}

// LabelSettings are the settings of the labeller.
func (c Config) LabelSettings() (vlm.Settings, error) {
	way := vlm.DAMP
	if c.Method.of().Loss.Estimator == "vlpl" {
		way = vlm.VLPL
	}
	s, err := vlm.Published(way, c.Method.DataSet, c.Method.Form)
	if err != nil {
		return s, err
	}
	s.Seed, s.ApplyEXIF, s.MaxPixels = c.Run.Seed, c.Data.Pixels().ApplyEXIF, int64(c.Data.MaxPixels)
	for _, name := range slices.Sorted(maps.Keys(c.Pseudo.Options)) {
		if err := s.Assign(name, c.Pseudo.Options[name]); err != nil {
			return s, err
		}
	}
	if c.Pseudo.TextFeatures != "" {
		s.TextFeatures = c.Pseudo.TextFeatures
	}
	return s, s.Check()
}

// resolve says where pseudo-labels come from.
func (p *Pseudo) resolve(c *Config, m *method.Method) error {
	options := len(p.Options) > 0 || p.TextFeatures != ""
	if _, ok := clipTypes[p.Precision]; !ok {
		return wrong("clip_precision %q is none of fp32, bf16, fp16", p.Precision)
	}
	if !m.Needs(loss.PseudoLabels) {
		if options {
			return wrong("pseudo_options and text_features are for methods with pseudo-labels, which %s has not", m.ID)
		}
		if p.ClassNames != "" && c.Model.Head != HeadDualCoOp {
			return wrong("class_names are for methods with prompts (pseudo-labels of --clip, dualcoop), which %s has not", m.ID)
		}
		return nil
	}
	if p.File == "" && p.Clip == "" && c.Data.Path == Shapes {
		p.Clip = BuiltinClip
	}
	switch {
	case p.File == "" && p.Clip == "":
		return wrong(
			"%s needs pseudo-labels from an image-text model; give --clip MODEL to make them while training, or "+
				"--pseudo-labels FILE.npy with 1, 0 and -1 for each image and class (spml pseudo-label makes one)",
			m.ID,
		)
	case p.File != "" && p.Clip != "":
		return wrong("pseudo-labels come from --clip or from --pseudo-labels, not from both")
	case p.File != "":
		if options || p.ClassNames != "" {
			return wrong("pseudo_options, text_features and class_names are for --clip; a file's labels are done")
		}
		return nil
	}
	def(&p.Precision, "fp32")
	if _, err := c.LabelSettings(); err != nil {
		return wrong("%v", err)
	}
	return nil
}

// SingleFile is the image-text model where it is a single file, else "".
func (p Pseudo) SingleFile() string { return singleFile(p.Clip) }

func singleFile(path string) string {
	if st, err := os.Stat(path); path == "" || path == BuiltinClip || err != nil || st.IsDir() {
		return ""
	}
	return path
}
