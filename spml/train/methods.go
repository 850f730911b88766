package train

import (
	"strings"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
)

// Trainable says whether the trainer trains a method. Some want files: pseudo-labels, features of a strong view.
func Trainable(e *loss.Entry) bool { return method.Of(e).Lacks() == "" }

func methodNames() string { return strings.Join(method.Trainable(), ", ") }

// latent says whether a method's head gives Gaussian latents.
func latent(e *loss.Entry) bool { return e.Needs&loss.Latents != 0 }

// method is that of a resolved configuration.
func (c *Config) method() *method.Method {
	m, err := method.Lookup(c.Method)
	if err != nil {
		return &method.Method{ID: c.Method, Loss: &loss.Entry{}} // an unknown name, which Resolve refuses
	}
	return m
}

// LossValues are all parameters of the loss as a run of a resolved configuration has them.
func (c Config) LossValues() (loss.Values, error) {
	e, err := loss.Lookup(c.Method)
	if err != nil {
		return nil, err
	}
	return e.ResolveForm(c.Preset, c.parameters(e), c.Form)
}

// parameters are the loss's parameters of a run: a schedule is as long as the run, and as late as the backbone is
// frozen, unless that was set.
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
