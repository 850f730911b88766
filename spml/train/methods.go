package train

import (
	"strings"

	"github.com/gospml/gospml/spml/loss"
)

// provided is what the trainer puts into a batch for any method.
const provided = loss.Observed | loss.Full | loss.Epoch | loss.ModelParameters

// estimatorParts is what the trainer's estimators add, by the registry's name of the estimator.
var estimatorParts = map[string]loss.Needs{
	"":                  0,
	"schedule":          0,
	"large-loss":        0,
	"role":              loss.Estimates,
	"apl":               loss.SoftNegatives,
	"expected-negative": loss.NegativeMask | loss.Averages,
	"heat-maps":         loss.NegativeMask | loss.ScoreMaps | loss.HeatMaps,
	"threshold":         loss.Latents,
	"smile":             loss.SoftLabels | loss.Latents | loss.BetaParameters,
	"vlpl":              loss.PseudoLabels,
	"damp":              loss.PseudoLabels,
	"queue":             loss.Embeddings,
}

// encoderOnly is the second step of smile-classifier, which the trainer takes by itself.
const encoderOnly = "smile-encoder"

// Trainable says whether the trainer trains a method. Some want files: pseudo-labels, features of a strong view.
func Trainable(e *loss.Entry) bool { return e.ID != encoderOnly && lacking(e) == "" }

func lacking(e *loss.Entry) string {
	if e.ID == encoderOnly {
		return "the classifier's step: train smile-classifier, which takes both"
	}
	parts, ok := estimatorParts[e.Estimator]
	names := (e.Needs &^ (provided | parts | loss.StrongView)).Names()
	if !ok {
		names = append(names, "the label estimator "+e.Estimator)
	}
	return strings.Join(names, ", ")
}

func methodNames() string {
	var s []string
	for _, e := range loss.Entries() {
		if Trainable(e) {
			s = append(s, e.ID)
		}
	}
	return strings.Join(s, ", ")
}

// latent says whether a method's head gives Gaussian latents.
func latent(e *loss.Entry) bool { return e.Needs&loss.Latents != 0 }

// LossValues are all parameters of the loss as a run of a resolved configuration has them.
func (c Config) LossValues() (loss.Values, error) {
	e, err := loss.Lookup(c.Method)
	if err != nil {
		return nil, err
	}
	return e.ResolveForm(c.Preset, c.parameters(e), c.Form)
}

// parameters are the loss's parameters of a run: a schedule is as long as the run, and as late as the backbone is frozen, unless
// that was set.
func (c *Config) parameters(e *loss.Entry) loss.Values {
	v := loss.Values{}
	for name, x := range c.Params {
		v[name] = x
	}
	for _, p := range e.Params {
		if _, set := v[p.Name]; set {
			continue
		}
		switch p.Name {
		case "epochs":
			v[p.Name] = float64(c.Epochs)
		case "frozen":
			v[p.Name] = float64(c.FreezeEpochs)
		}
	}
	return v
}
