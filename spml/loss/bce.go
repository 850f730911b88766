package loss

import "github.com/gospml/gospml/torch"

// BCE with full labels is the supervised upper bound: L = 1/(BC) Σ [ t·sn + (1-t)·sp ], gradient (p-t)/(BC).
//
// Source: Cole et al. 2021, the "full" row of its tables. The released code adds 1e-5 inside the logarithms (LogEps).
func init() {
	mustRegister(Entry{
		ID:      "bce",
		Aliases: []string{"bce-full", "full", "bce_full"},
		Title:   "binary cross-entropy with full labels",
		Source:  "Cole et al. 2021 (upper bound)",
		Needs:   Full,
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.logits()
				t := b.Full.EqScalar(1)
				return o.Reduction.apply(torch.Where(t, positive(z, o.LogEps), negative(z, o.LogEps)))
			}, nil
		},
	})
}
