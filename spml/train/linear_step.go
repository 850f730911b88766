package train

import (
	"math"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// quickly says whether a step on features can do without autograd: the model is a linear head, and the loss's gradient by the logits is all there is.
func (t *trainer) quickly() bool {
	f, ok := t.l.(*frozen)
	return ok && f.head == nil && f.strong == nil && !f.maps && t.procs == nil && t.c.MicroBatch == 0 && len(t.est.groups()) == 0 && t.entry.Needs&(loss.ModelParameters|loss.SoftLabels) == 0
}

// quickStep computes the gradient of a linear head from the loss's by the logits, g: gᵀx and Σg. It gives false, and changes nothing, where the loss is not finite.
func (t *trainer) quickStep(v *view) (x float64, ok bool, err error) {
	f := t.l.(*frozen)
	torch.NoGrad(func() {
		at := t.places(v)
		in := f.x.IndexSelect(0, at)
		b := &loss.Batch{Logits: torch.Linear(in, f.weight, f.bias), Epoch: t.p.Epoch}
		if t.labels.observed != nil {
			b.Observed = t.labels.observed.IndexSelect(0, at)
		}
		if t.labels.full != nil && t.entry.Needs&loss.Full != 0 {
			b.Full = t.labels.full.IndexSelect(0, at)
		}
		if err = t.est.fill(b, v, at); err != nil {
			return
		}
		var value, g *torch.Tensor
		if value, g, err = loss.ValueGrad(t.loss, *b); err != nil {
			return
		}
		if t.late {
			if err = t.sendLoss(v, value, 1); err != nil {
				return
			}
		} else if x = value.Item(); math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		ok = true
		f.weight.SetGrad(g.T().Matmul(in))
		f.bias.SetGrad(g.SumDim([]int{0}, false))
		err = t.update([]part{{v, b}})
	})
	return x, ok, err
}
