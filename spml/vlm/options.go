package vlm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/clip"
)

// option is a setting that can be given by name.
type option struct {
	name, doc string
	damp      bool // of DAMP alone
	to        func(s *Settings) any
}

var options = []option{
	{"tau", "temperature of the softmax over classes", false, func(s *Settings) any { return &s.Tau }},
	{"theta", "what a positive exceeds (vlpl) or reaches (damp: ζ)", false, func(s *Settings) any { return &s.Theta }},
	{"delta", "share of the classes that become negative", false, func(s *Settings) any { return &s.Delta }},
	{"nu", "upper bound of the local threshold", true, func(s *Settings) any { return &s.Nu }},
	{"top_k", "positives come from the k best classes", true, func(s *Settings) any { return &s.TopK }},
	{"grid", "g for g×g tiles", true, func(s *Settings) any { return &s.Grid }},
	{"overlap", "most by which tiles grow, as a share of their sides", true, func(s *Settings) any { return &s.Overlap }},
	{"noise", "true or false: text features with the noise of the label graph", true, func(s *Settings) any { return &s.Noise }},
	{"noise_seed", "draw of the noise, 0 for the run's seed", true, func(s *Settings) any { return &s.NoiseSeed }},
	{"relation", ".npy file [C, C] with the similarities that the label graph is made of", true, func(s *Settings) any { return &s.Relation }},
	{"top_u", "entries in a row of the label graph", true, func(s *Settings) any { return &s.TopU }},
	{"weight", "what a class's neighbours share in the label graph", true, func(s *Settings) any { return &s.Weight }},
	{"star", "true or false: A*, the row softmax of the label graph, as printed", true, func(s *Settings) any { return &s.Star }},
	{"graph_tau", "temperature τ′ of A*", true, func(s *Settings) any { return &s.GraphTau }},
	{"last", "true or false: an activation after the label graph's last layer too, as printed", true, func(s *Settings) any { return &s.Last }},
	{"template", "prompt with {name} for the class", false, func(s *Settings) any { return &s.Templates }},
	{"text_features", ".npy file [C, E] in place of prompts", false, func(s *Settings) any { return &s.TextFeatures }},
	{"preprocess", "one of " + strings.Join(clip.Variants(), ", "), false, func(s *Settings) any { return &s.Preprocess }},
}

// OptionNames lists what Assign takes.
func OptionNames() []string {
	var names []string
	for _, o := range options {
		names = append(names, o.name)
	}
	return names
}

// Assign sets an option of [OptionNames] by its text.
func (s *Settings) Assign(name, text string) error {
	i := slices.IndexFunc(options, func(o option) bool { return o.name == name })
	if i < 0 {
		return fmt.Errorf("%w: no option %q; there are %s", ErrSettings, name, strings.Join(OptionNames(), ", "))
	}
	if options[i].damp && s.Method != DAMP {
		return fmt.Errorf("%w: the option %s belongs to damp", ErrSettings, name)
	}
	var err error
	switch to := options[i].to(s).(type) {
	case *float64:
		*to, err = strconv.ParseFloat(text, 64)
	case *int:
		*to, err = strconv.Atoi(text)
	case *bool:
		*to, err = strconv.ParseBool(text)
	case *uint32:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 32)
		*to = uint32(n)
	case *string:
		*to = text
	case *[]string:
		*to = []string{text}
	}
	if err != nil {
		return fmt.Errorf("%w: %s=%s: want %s", ErrSettings, name, text, options[i].doc)
	}
	return nil
}

// Check says what of the settings cannot be.
func (s Settings) Check() error { return s.check() }
