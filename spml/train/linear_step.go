package train

import (
	"math"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// quickly says whether a step on features can do without autograd: the model is a linear head, and the loss's gradient
// by the logits is all there is.
func (t *trainer) quickly() bool {
	x, _, _ := t.l.linear()
	return x != nil && t.procs == nil && t.c.Optim.MicroBatch == 0 && len(t.step.Estimator.Groups()) == 0 &&
		t.entry.Needs&(loss.ModelParameters|loss.SoftLabels|loss.Estimates) == 0
}

// quickStep computes the gradient of a linear head from the loss's by the logits, g: gᵀx and Σg. It gives false, and
// changes nothing, where the loss is not finite.
func (t *trainer) quickStep(v *view) (x float64, ok bool, err error) {
	rows, weight, bias := t.l.linear()
	torch.NoGrad(func() {
		at := t.places(v)
		in := rows.IndexSelect(0, at)
		b := &loss.Batch{Logits: torch.Linear(in, weight, bias)}
		if err = t.step.fill(t.stepOf(v, at, b)); err != nil {
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
		weight.SetGrad(g.T().Matmul(in))
		bias.SetGrad(g.SumDim([]int{0}, false))
		err = t.update([]part{{v, b}})
	})
	return x, ok, err
}
