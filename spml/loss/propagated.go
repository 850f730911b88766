package loss

import "github.com/gospml/gospml/torch"

// Propagated is SCPNet's consistency: the cross-entropy of the strong view's logits [B, C] towards hard labels, plus
// weight times that towards soft ones (the weak view's scores spread over the label graph), over the rows that count
// [B]. It is a sum; logarithms are of at least 1e-8.
//
// Source: Ding et al. 2023 (SCPNet), released code.
func Propagated(strong, labels, soft, rows *torch.Tensor, weight float64) *torch.Tensor {
	const least = 1e-8
	p, n := strong.Sigmoid().ClampMin(least).Log(), strong.Sigmoid().RsubScalar(1).ClampMin(least).Log()
	to := func(t *torch.Tensor) *torch.Tensor { return t.Mul(p).Add(t.RsubScalar(1).Mul(n)) }
	terms := to(labels)
	if weight != 0 {
		terms = terms.Add(to(soft).MulScalar(weight))
	}
	return terms.Mul(rows.Unsqueeze(1)).Sum().Neg()
}
