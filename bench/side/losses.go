package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// lossPrefix starts the names of the losses' cases: loss/ID/SHAPE/FORM, with inputs SHAPE_z.npy, … that losses.py wrote.
const lossPrefix = "loss/"

// errNone says that a loss has no such form.
var errNone = fmt.Errorf("none")

// lossCase is a loss with its batch.
type lossCase struct {
	l         loss.Loss
	b         loss.Batch
	leaves    []*torch.Tensor
	valueGrad bool
}

// lossSettings are the parameters of bench/peers/loss_forms.py.
func lossSettings(id string, entries int) (loss.Values, loss.Options) {
	o := loss.Options{}
	switch id {
	case "em":
		return loss.Values{"alpha": 0.1}, o
	case "em-apl":
		return loss.Values{"alpha": 0.1, "beta": 0.9}, o
	case "epr", "role":
		return loss.Values{"k": 1.5}, o
	case "an-ls":
		return loss.Values{"ls_coef": 0.1}, o
	case "ll-r", "ll-ct", "ll-cp":
		return loss.Values{"k": math.Ceil(float64(entries)*0.004 - 1e-9)}, o
	case "gr":
		return loss.Values{"q2": 0.01, "q3": 1}, o
	case "gpr":
		return loss.Values{"q2": 0.01, "q3": 1, "lam_lo": 0.5, "lam_hi": 0.7, "rho": 0.9, "eta": 0.001, "m_pos": 1.5}, o
	case "asl":
		return loss.Values{"gamma_pos": 0, "gamma_neg": 2, "margin": 0.2, "detach_weight": 1}, o
	case "focal":
		return loss.Values{"gamma": 2, "alpha": 0.75}, o
	case "hill":
		return loss.Values{"lam": 1.5, "margin": 1, "gamma": 2}, loss.Options{Reduction: loss.Sum}
	case "splc":
		return loss.Values{"tau": 0.6, "margin": 1, "gamma": 2}, loss.Options{Reduction: loss.Sum}
	case "vlpl":
		return loss.Values{"alpha": 0.1, "beta_pos": 0.7, "gamma_neg": 0, "rho": 0.9}, o
	}
	return nil, o
}

func newLossCase(folder, name string) (*lossCase, error) {
	parts := strings.Split(strings.TrimPrefix(name, lossPrefix), "/")
	if len(parts) != 3 {
		return nil, fmt.Errorf("case %q: want loss/ID/SHAPE/FORM", name)
	}
	id, shape, form := parts[0], parts[1], parts[2]
	read := func(what string) (t *torch.Tensor, err error) {
		a, err := npy.Read(filepath.Join(folder, shape+"_"+what+".npy"))
		if err != nil {
			return nil, err
		}
		v, err := a.Float32()
		if err != nil || len(a.Shape) != 2 {
			return nil, fmt.Errorf("%s of %s: shape %v, %w", what, shape, a.Shape, err)
		}
		return torch.FromSlice(v, int(a.Shape[0]), int(a.Shape[1])), nil
	}
	in := map[string]*torch.Tensor{}
	for _, what := range []string{"z", "y", "t", "a", "l", "u", "s", "f", "c"} {
		t, err := read(what)
		if err != nil {
			return nil, err
		}
		in[what] = t
	}
	e, err := loss.Lookup(id)
	if err != nil {
		return nil, err
	}
	set, o := lossSettings(id, in["z"].Numel())
	c := &lossCase{}
	switch form {
	case "composed":
		o.Impl = loss.Composed
	case "autograd", "valuegrad":
		if e.Fused == nil {
			return nil, errNone
		}
		o.Impl = loss.Fused
		c.valueGrad = form == "valuegrad"
		if c.valueGrad && e.Needs&(loss.Estimates|loss.StrongView|loss.Embeddings) != 0 {
			return nil, errNone // more than the logits wants a gradient
		}
	default:
		return nil, fmt.Errorf("form %q is none of autograd, valuegrad, composed", form)
	}
	if c.l, err = e.Make("", set, o); err != nil {
		return nil, err
	}
	labels := func(what string) *torch.Tensor { return in[what].ToDType(torch.Int8) }
	c.b = loss.Batch{
		Logits: in["z"], Observed: labels("y"), Full: labels("t"), Labels: in["a"], Pseudo: labels("l"), Estimate: in["u"],
		Strong: in["s"], Contrast: &loss.Contrast{
			Features: in["f"].Reshape(in["f"].Size(0), 2, -1), Labels: in["c"].Flatten(0, -1).ToDType(torch.Int64),
		},
		Epoch: 2, Point: &loss.Point{W: 5, B: -5, Mu: 0.65, Sigma: 1.25},
	}
	if id == "splc" {
		c.b.Epoch = 10 // corrections have begun
	}
	if !c.valueGrad {
		c.leaves = []*torch.Tensor{in["z"].SetRequiresGrad(true)}
		if e.Needs&loss.Estimates != 0 {
			c.leaves = append(c.leaves, in["u"].SetRequiresGrad(true))
		}
		if e.Needs&loss.StrongView != 0 {
			c.leaves = append(c.leaves, in["s"].SetRequiresGrad(true))
		}
		if e.Needs&loss.Embeddings != 0 {
			c.b.Contrast.Features = c.b.Contrast.Features.Detach().SetRequiresGrad(true)
			c.leaves = append(c.leaves, c.b.Contrast.Features)
		}
	}
	return c, nil
}

// once is a forward and a backward pass.
func (c *lossCase) once() (*torch.Tensor, error) {
	if c.valueGrad {
		v, _, err := loss.ValueGrad(c.l, c.b)
		return v, err
	}
	v, err := c.l.Value(c.b)
	if err != nil {
		return nil, err
	}
	v.Backward()
	torch.ZeroGrad(c.leaves, false)
	return v, nil
}

func (c *lossCase) value() (x float64, err error) {
	torch.Scope(func(*torch.Arena) {
		var v *torch.Tensor
		if v, err = c.once(); err == nil {
			x = v.Item()
		}
	})
	return x, err
}

func (c *lossCase) run(n int) (err error) {
	for range n {
		torch.Scope(func(*torch.Arena) { _, err = c.once() })
		if err != nil {
			return err
		}
	}
	return nil
}
