package vlm

import (
	"errors"
	"fmt"
	"github.com/gospml/gospml/data/pixel"
	"slices"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/label"
)

// ErrSettings is in the chain of errors about settings that do not fit: the numbers, the class texts, the model.
var ErrSettings = errors.New("pseudo-labels")

// Method is a way from similarities to labels.
type Method string

// Methods.
const (
	VLPL Method = "vlpl" // Xing et al. 2024: a threshold on the softmax of the whole photo
	DAMP Method = "damp" // Tran et al. 2025 (AEVLP): the photo and its tiles, a threshold from the observed label
)

// Forms say whose description is followed where paper and code differ.
const (
	Default = ""      // the paper's numbers, CLIP's statistics, negatives that take no positive back
	Paper   = "paper" // the paper's negatives: of DAMP all classes up to the Δ-quantile, of VLPL the floor(δ·C) least similar, positives or not
	Code    = "code"  // the released code: its numbers, prompts, preprocessing and negatives
	Count   = "count" // DAMP with the floor(Δ·C) lowest for negatives, positives or not
)

// DataSets are those whose numbers the papers give.
func DataSets() []string { return []string{"voc", "coco", "nus", "cub"} }

// Settings are the choices of a labeller; [Published] fills them.
type Settings struct {
	Method Method `json:"method"`
	Form   string `json:"form"`

	Tau   float64 `json:"tau"`   // τ, temperature of the softmax over classes
	Theta float64 `json:"theta"` // VLPL's θ, which a positive exceeds; DAMP's ζ, which it reaches
	Delta float64 `json:"delta"` // δ, Δ: share of the classes that become negative

	Nu      float64 `json:"nu"`      // DAMP: ν, upper bound of the local threshold
	TopK    int     `json:"top_k"`   // DAMP: positives come from the k best classes
	Grid    int     `json:"grid"`    // DAMP: g, for g×g tiles
	Overlap float64 `json:"overlap"` // DAMP: tiles grow by a share drawn from U(0, Overlap) of their sides
	Noise   bool    `json:"noise"`   // DAMP: text features with the noise of the label graph
	TopU    int     `json:"top_u"`   // DAMP: u, entries in a row of the label graph; 0, or more than C: all
	Weight  float64 `json:"weight"`  // DAMP: e, what a class's neighbours share in the label graph
	// Star multiplies with A*, the row softmax of Ā/τ′ with τ′ = GraphTau, in place of Ā, and Last has the activation
	// after the last layer too: the graph as printed.
	Star     bool    `json:"star,omitempty"`
	GraphTau float64 `json:"graph_tau,omitempty"`
	Last     bool    `json:"last,omitempty"`
	// NoiseSeed draws the noise where it is to differ from Seed; 0: Seed. Relation is a .npy file [C, C] with similarities
	// of the classes for the label graph, as the released code has them; "": cosines of the text features.
	NoiseSeed uint32 `json:"noise_seed,omitempty"`
	Relation  string `json:"relation,omitempty"`

	Templates    []string `json:"templates"`               // prompts; {name} or {} is the class. Several: the mean of their normalised embeddings
	Names        []string `json:"names,omitempty"`         // [C], texts for prompts; nil: their own
	TextFeatures string   `json:"text_features,omitempty"` // .npy [C, E] of text embeddings, in place of prompts
	Preprocess   string   `json:"preprocess"`              // one of clip.Variants
	Seed         uint32   `json:"seed"`                    // of tiles and noise
	Cache        string   `json:"-"`                       // folder that keeps features of prompts by model and prompts (TextCache); "": none
	Batch        int      `json:"batch"`                   // photos at a time
	ApplyEXIF    bool     `json:"apply_exif,omitempty"`    // photos are turned as their EXIF orientation says
	MaxPixels    int64    `json:"max_pixels,omitempty"`    // of a photo; 0: pixel.DefaultMaxPixels
}

// pixels are the options that photos are decoded with.
func (s *Settings) pixels() pixel.Options {
	return pixel.Options{ApplyEXIF: s.ApplyEXIF, MaxPixels: s.MaxPixels}
}

// numbers are a column of the papers' tables.
type numbers struct {
	tau, theta       float64 // VLPL
	dTau, nu, zeta   float64 // DAMP
	codeNu           float64
	topK, grid, topU int
	delta            float64
	graphTau         float64
	prompted         bool // whether VLPL's released text features are of prompts, not of bare names
}

var published = map[string]numbers{
	"":     {tau: 0.01, theta: 0.3, dTau: 0.01, nu: 0.3, codeNu: 0.3, zeta: 0.5, topK: 3, grid: 4, topU: 0, delta: 0.2, graphTau: 0.3, prompted: true},
	"voc":  {tau: 0.03, theta: 0.3, dTau: 0.01, nu: 0.1, codeNu: 0, zeta: 0.5, topK: 3, grid: 4, topU: 20, delta: 0.2, graphTau: 0.3},
	"coco": {tau: 0.01, theta: 0.3, dTau: 0.01, nu: 0.3, codeNu: 0.3, zeta: 0.5, topK: 3, grid: 4, topU: 62, delta: 0.3, graphTau: 0.2},
	"nus":  {tau: 0.03, theta: 0.1, dTau: 0.01, nu: 0.3, codeNu: 0.3, zeta: 0.6, topK: 3, grid: 4, topU: 50, delta: 0.2, graphTau: 0.2, prompted: true},
	"cub":  {tau: 0.03, theta: 0.01, dTau: 0.1, nu: 0.005, codeNu: 0.005, zeta: 0.005, topK: 32, grid: 5, topU: 312, delta: 0.2, graphTau: 0.3, prompted: true},
}

// Published gives a method's settings for a data set of [DataSets], or "" for any other, in a form. VLPL has δ = 0,
// as in
// the paper's final method.
//
// Sources: Xing et al. 2024 (VLPL), section 4 and the command line of mvrl/VLPL @ ed09b59; AEVLP's supplement, Table 3,
// and Fsoft-AIC/AEVLP @ 0bad82a, config.py (τ′, u, e) and configs/*.json (g, Δ).
func Published(m Method, dataset, form string) (Settings, error) {
	n, ok := published[dataset]
	if !ok {
		return Settings{}, fmt.Errorf(
			"%w: no published numbers for the data set %q; there are some for %s",
			ErrSettings,
			dataset,
			strings.Join(DataSets(), ", "),
		)
	}
	s := Settings{Method: m, Form: form, Templates: []string{"a photo of a {name}."}, Preprocess: "squash", Batch: 32}
	switch m {
	case VLPL:
		s.Tau, s.Theta = n.tau, n.theta
		if form == Paper {
			s.Templates = []string{"A photo of {name}"} // section 3.2, without article and full stop
		}
		if form == Code {
			s.Tau, s.Theta, s.Preprocess = 0.01, 0.3, "vlpl"
			if !n.prompted {
				s.Templates = []string{"{name}"}
			}
		}
	case DAMP:
		s.Tau, s.Theta, s.Delta, s.Nu, s.TopK, s.Grid, s.Overlap = n.dTau, n.zeta, n.delta, n.nu, n.topK, n.grid, 0.2
		s.Noise, s.TopU, s.Weight, s.Batch = true, n.topU, 0.2, 8
		if form == Paper {
			s.Templates = []string{"a photo of a {name}"} // section 6.1
			s.Star, s.GraphTau, s.Last = true, n.graphTau, true
		}
		if form == Code {
			s.Nu, s.Overlap, s.Preprocess = n.codeNu, 0, "aevlp"
		}
	}
	return s, s.check()
}

// check says what of the settings cannot be.
func (s *Settings) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSettings}, a...)...)
	}
	forms := []string{Default, Paper, Code}
	switch s.Method {
	case VLPL:
	case DAMP:
		forms = append(forms, Count)
	default:
		return bad("no method %q; there are vlpl and damp", s.Method)
	}
	unit := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case !slices.Contains(forms, s.Form):
		return bad("%s has no form %q; it has the default, which is empty, %s", s.Method, s.Form, strings.Join(forms[1:], ", "))
	case !(s.Tau > 0):
		return bad("the temperature τ = %v must be above 0", s.Tau)
	case !unit(s.Theta) || !unit(s.Delta):
		return bad("θ = %v and δ = %v must lie in [0, 1]", s.Theta, s.Delta)
	case s.Batch < 1:
		return bad("%d photos at a time", s.Batch)
	case s.TextFeatures == "" && len(s.Templates) == 0:
		return bad("there are neither prompts nor text features")
	}
	if _, err := clip.NamedPreprocess(s.Preprocess); err != nil {
		return bad("%w", err)
	}
	for _, t := range s.Templates {
		if !strings.Contains(t, "{name}") && !strings.Contains(t, "{}") {
			return bad("the template %q has no {name}", t)
		}
	}
	if s.Method == DAMP {
		switch {
		case s.Grid < 1 || s.Grid > 32:
			return bad("a grid of %d×%d tiles; the most is 32×32", s.Grid, s.Grid)
		case s.TopK < 1:
			return bad("k = %d best classes", s.TopK)
		case !unit(s.Nu) || !unit(s.Overlap) || !unit(s.Weight):
			return bad("ν = %v, overlap %v and e = %v must lie in [0, 1]", s.Nu, s.Overlap, s.Weight)
		case s.TopU < 0:
			return bad("u = %d", s.TopU)
		case !(s.GraphTau >= 0) || s.Star && s.GraphTau == 0:
			return bad("the temperature τ′ = %v of A* must be above 0", s.GraphTau)
		}
	}
	return nil
}

// views is how many pictures CLIP sees of each photo.
func (s *Settings) views() int {
	if s.Method == DAMP {
		return 1 + s.Grid*s.Grid
	}
	return 1
}

// batches is how many batches a pass over n photos has.
func (s *Settings) batches(n int) int { return (n + s.Batch - 1) / s.Batch }

func (s *Settings) damp() label.DAMPConfig {
	form := map[string]label.DAMPForm{Default: label.DAMPDefault, Paper: label.DAMPPaper, Code: label.DAMPCode, Count: label.DAMPCount}[s.Form]
	return label.DAMPConfig{Tau: s.Tau, Nu: s.Nu, TopK: s.TopK, Zeta: s.Theta, Negative: s.Delta, Form: form}
}

// prompts are the texts of a template, one a class.
func (s *Settings) prompts(template string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ReplaceAll(strings.ReplaceAll(template, "{name}", n), "{}", n)
	}
	return out
}

// names are the classes in words.
func (s *Settings) names(classes []string) ([]string, error) {
	names := s.Names
	switch {
	case names != nil:
	case isCUB(classes):
		names = CUBNames()
	default:
		for _, c := range classes {
			names = append(names, strings.ReplaceAll(c, "_", " "))
		}
	}
	if len(names) != len(classes) {
		return nil, fmt.Errorf("%w: there are %d class texts and %d classes", ErrSettings, len(names), len(classes))
	}
	for i, n := range names {
		if strings.TrimSpace(n) == "" {
			return nil, fmt.Errorf("%w: class %d (%q) has no text", ErrSettings, i+1, classes[i])
		}
	}
	return names, nil
}
