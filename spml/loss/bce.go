package loss

import "github.com/gospml/gospml/torch"

// Binary cross-entropy with full labels, and the two baselines that also look at them.
func init() {
	mustRegister(Entry{
		ID:      "bce",
		Aliases: []string{"bce-full", "full", "bce, full annotation"},
		Title:   "binary cross-entropy with full labels",
		Formula: "t·sn + (1-t)·sp; gradient p - t",
		Source:  "Cole et al. 2021 (upper bound)",
		Notes:   "The released code adds 1e-5 inside the logarithms.",
		Forms:   map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:   Full,
		Tables:  []string{"Cole", "VLPL"},
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				return o.Reduce(torch.Where(b.Full.EqScalar(1), Positive(z, o.LogEps), Negative(z, o.LogEps)))
			}, nil
		},
		Fused: pointwise("an", fullLabels, fixed(func(Values) []float64 { return []float64{1} })),
	})
	mustRegister(Entry{
		ID:      "bce-ls",
		Title:   "binary cross-entropy with full labels, smoothed",
		Formula: "τ·sn + (1-τ)·sp with τ = 1-ε where t = 1, ε elsewhere; gradient p - τ",
		Source:  "Cole et al. 2021",
		Notes:   "The paper's text smooths by ε/2 on each side, the code by ε.",
		Params:  smoothing("code, elijahcole/single-positive-multi-label @ 89152d5, train.py: ls_coef", perData(0.1, 0.1, 0.1, 0.1)),
		Forms:   smoothingForms,
		Needs:   Full,
		Tables:  []string{"Cole"},
		New: func(v Values, o Options) (Func, error) {
			pos, neg := smoothed(v)
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				return o.Reduce(torch.Where(b.Full.EqScalar(1), CrossEntropy(z, pos, o.LogEps), CrossEntropy(z, neg, o.LogEps)))
			}, nil
		},
		Fused: pointwise("an_ls", fullLabels, fixed(targets)),
	})
	mustRegister(Entry{
		ID:      "iun",
		Aliases: []string{"1 P. & all N.", "one-positive-all-negatives"},
		Title:   "one positive and all true negatives",
		Formula: "y·sn + (1-t)·sp; unobserved positives contribute nothing",
		Source:  "Cole et al. 2021 (IUN)",
		Notes:   "The first released code tests the full labels against -1, which they never hold, so that its negative term is 0; the later fork tests against 0, as here.",
		Forms:   map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:   Observed | Full,
		Tables:  []string{"Cole", "VLPL"},
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				neg := Negative(z, o.LogEps)
				return o.Reduce(ByLabel(b.Observed, Positive(z, o.LogEps), neg, mask(b.Full.EqScalar(0), z).Mul(neg)))
			}, nil
		},
		Fused: pointwise("an_masked", func(b *Batch) (first, second *torch.Tensor) { return b.Observed, b.Full }, fixed(func(Values) []float64 { return []float64{0} })),
	})
}
