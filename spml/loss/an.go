package loss

import "github.com/gospml/gospml/torch"

// AN assumes every label that was not observed positive to be negative: L = 1/(BC) Σ [ y·sn + (1-y)·sp ],
// gradient (p-y)/(BC).
//
// Source: Cole et al. 2021, eq. (3). Released code: log epsilon 1e-5 (Cole, EM, VLPL), 1e-7 (AEVLP), exact (LL, LAC);
// LAC's text sums over classes, its code averages over B·C.
func init() {
	mustRegister(Entry{
		ID:      "an",
		Aliases: []string{"assume-negative", "an-bce"},
		Title:   "assume negative",
		Source:  "Cole et al. 2021, eq. (3)",
		Needs:   Observed,
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.logits()
				y := b.Observed.EqScalar(1)
				return o.Reduction.apply(torch.Where(y, positive(z, o.LogEps), negative(z, o.LogEps)))
			}, nil
		},
	})
}
