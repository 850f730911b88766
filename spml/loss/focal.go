package loss

import "github.com/gospml/gospml/torch"

// Focal loss with unknown labels assumed negative.
func init() {
	mustRegister(Entry{
		ID:      "focal",
		Aliases: []string{"focal-loss"},
		Title:   "focal loss",
		Formula: "α·y·n^γ·sn + (1-α)·(1-y)·p^γ·sp",
		Source:  "Lin et al. 2017, on assumed negatives as in Zhou et al. 2022, supplement",
		Notes: "The Hill/SPLC repository's focal loss has no α, sums, and takes the focal weight as constant (form " +
			"code). VLPL's and GR's tables differ on COCO: 69.79, 68.79.",
		Params: []Param{
			{Name: "gamma", Doc: "γ", Source: "paper, em Sec. C.3: Focal gamma", Default: 2, Max: inf},
			{Name: "alpha", Doc: "α, weight of positives; 1-α weighs negatives", Source: "paper, em Sec. C.3: Focal alpha", Default: 0.75, Max: 1},
			{Name: "balanced", Doc: "weigh by α", Source: "ours, the tuned α of the supplement is one of both sides", Default: 1, Choices: noYes},
			{Name: "detach_weight", Doc: "the focal weight has no gradient", Source: "ours, as in Lin et al. 2017", Choices: noYes},
		},
		Forms: map[string]Form{
			"code": {
				Doc:       "Hill/SPLC repository: no α, detached weight, sum",
				Set:       Values{"balanced": 0, "detach_weight": 1},
				Reduction: Sum,
			},
		},
		Needs:  Observed,
		Tables: []string{"EM", "VLPL", "GR"},
		New: func(v Values, o Options) (Func, error) {
			gamma, alpha := v["gamma"], v["alpha"]
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				w := z
				if v.is("detach_weight") {
					w = b.constants()
				}
				pos, neg := focalPositive(z, w, gamma, o.LogEps), focalNegative(z, w, gamma, o.LogEps)
				if v.is("balanced") {
					pos, neg = pos.MulScalar(alpha), neg.MulScalar(1-alpha)
				}
				return o.Reduce(torch.Where(b.Observed.EqScalar(1), pos, neg))
			}, nil
		},
		Fused: pointwise("focal", observedLabels, fixed(func(v Values) []float64 {
			pos, neg := 1.0, 1.0
			if v.is("balanced") {
				pos, neg = v["alpha"], 1-v["alpha"]
			}
			return []float64{v["gamma"], pos, neg, v["detach_weight"]}
		})),
	})
}
