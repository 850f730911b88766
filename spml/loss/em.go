package loss

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// EM maximises the entropy of unknown labels instead of assuming a value: L = 1/(BC) Σ [ y·sn - α(1-y)·H(p) ],
// gradient [ -y·n + α(1-y)·z·p·n ]/(BC). Observed negatives (y = -1) take sp. The loss can be negative, down to -α·ln 2.
//
// Source: Zhou et al. 2022, eq. (4); α per data set from its supplement, equal to the released code. The code has log
// epsilon 1e-5 and stops at the first epoch without a better validation mAP. For thresholds the authors advise 0.75
// instead of 0.5, because negatives sit near 0.5.
func init() {
	mustRegister(Entry{
		ID:      "em",
		Aliases: []string{"entropy-maximization", "entropy-maximisation"},
		Title:   "entropy maximisation",
		Source:  "Zhou et al. 2022, eq. (4)",
		Needs:   Observed,
		Params: []Param{{
			Name: "alpha", Doc: "weight of the entropy of unknown labels", Default: 0.2,
			ByData: map[string]float64{"voc": 0.2, "coco": 0.1, "nus": 0.1, "cub": 0.01},
		}},
		New: func(v Values, o Options) (Func, error) {
			alpha := v["alpha"]
			if alpha < 0 {
				return nil, fmt.Errorf("alpha is %v, want 0 or more (a negative alpha is entropy minimisation, another loss)", alpha)
			}
			return func(b Batch) *torch.Tensor {
				z := b.logits()
				unknown := entropy(z, o.LogEps).MulScalar(-alpha)
				rest := torch.Where(b.Observed.EqScalar(-1), negative(z, o.LogEps), unknown)
				return o.Reduction.apply(torch.Where(b.Observed.EqScalar(1), positive(z, o.LogEps), rest))
			}, nil
		},
	})
}
