package loss

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// groupTerm is BCE(z, q), 0 where q is below 0: the photo has no group.
func groupTerm(z, q *torch.Tensor) *torch.Tensor {
	in := q.GeScalar(0)
	return mask(in, z).Mul(SoftCrossEntropy(z, q.ClampMin(0), 0))
}

// grouped adds Options.GroupWeight times the groups' term, reduced as the loss's own terms are, to a loss.
func (e *Entry) grouped(o Options, f Func) (Func, error) {
	if !(o.GroupWeight > 0) || math.IsInf(o.GroupWeight, 0) {
		return nil, fmt.Errorf("loss: the groups' weight is %v, want 0 (none) or more", o.GroupWeight)
	}
	if e.Needs&GroupScores != 0 {
		return nil, fmt.Errorf("loss: %s weighs groups by its own parameter group_weight", e.ID)
	}
	return func(b Batch) *torch.Tensor {
		z := b.Z()
		term := o.Reduce(groupTerm(z, like(b.Group, z)))
		b.report("group", term)
		return f(b).Add(term.MulScalar(o.GroupWeight))
	}, nil
}

// groupedPass is the same for a fused form.
func groupedPass(o Options, p Pass) Pass {
	numbers := []float64{opAdded, 0, 0, 1, 0, o.GroupWeight}
	labels := func(b *Batch) (first, second *torch.Tensor) { return b.Group, b.Group }
	exact := o
	exact.LogEps = 0
	q := pointwise("l48", labels, fixed(func(Values) []float64 { return numbers })).New(nil, exact)
	value, valueGrad := q.Value, q.ValueGrad
	tell := func(b *Batch, v *torch.Tensor) {
		if b.Report != nil {
			b.report("group", v.Detach().DivScalar(o.GroupWeight))
		}
	}
	q.Value = func(b *Batch) *torch.Tensor {
		v := value(b)
		tell(b, v)
		return v
	}
	q.ValueGrad = func(b *Batch) (v, grad *torch.Tensor) {
		v, grad = valueGrad(b)
		tell(b, v)
		return v, grad
	}
	return p.plus(q)
}
