package train

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/data"
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

// expectedPositives gives the parameters that are the mean number of positives of an image that of the validation rows,
// where the run takes it from there and they were not set.
func (c *Config) expectedPositives(e *loss.Entry, ds *data.Dataset, set loss.Values, ev Events) error {
	if c.Expected != "validation" {
		return nil
	}
	for _, p := range e.Params {
		if _, given := set[p.Name]; given || !p.Positives {
			continue
		}
		rows := ds.Rows(data.Val)
		if len(rows) == 0 || !labelled(ds, data.Val) {
			return fmt.Errorf("%w: %s has no validation rows with full labels to count positives in; give --param "+
				"%s=NUMBER, or leave out expected_positives", ErrData, ds.Name, p.Name)
		}
		n := 0
		for _, y := range ds.Gather(ds.Labels, rows) {
			if y == 1 {
				n++
			}
		}
		set[p.Name] = float64(n) / float64(len(rows))
		ev.note(fmt.Sprintf("%s = %.4g: the mean number of positives of %d validation rows", p.Name, set[p.Name], len(rows)))
	}
	return nil
}
