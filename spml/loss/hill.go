package loss

import "github.com/gospml/gospml/torch"

// hillNegative is (λ-p)·p²; its gradient falls again for large p.
func hillNegative(z *torch.Tensor, lam float64) *torch.Tensor {
	p := z.Sigmoid()
	return p.RsubScalar(lam).Mul(p.Square())
}

func focalMargin() []Param {
	return []Param{
		{Name: "margin", Doc: "m, taken off the logit of a positive", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: margin", Default: 1},
		{Name: "gamma", Doc: "γ of the focal weight", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: gamma", Default: 2, Max: inf},
		{Name: "lam", Doc: "λ of the Hill branch", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: lamb", Default: 1.5, Max: inf},
	}
}

// Hill loss.
func init() {
	mustRegister(Entry{
		ID:      "hill",
		Aliases: []string{"hill-loss"},
		Title:   "Hill loss",
		Formula: "(1-p_m)^γ·(-log p_m) with p_m = σ(z-m) where y = 1, sp where y = -1, else (λ-p)·p²",
		Source:  "Zhang et al. 2021 (Simple and Robust Loss Design)",
		Notes: "The official class sums (form code); GR's paper and code take plain sn for positives and the mean " +
			"(positive=ce). GR's Table 1 prints the branches with wrong signs. The focal weight is differentiated. The " +
			"branch forgives confident scores of labels that are assumed to be negative; " +
			"known ones have sp.",
		Params: append(
			focalMargin(),
			Param{
				Name:    "positive",
				Doc:     "loss of positives",
				Source:  "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: focal margin for positives",
				Choices: []string{"focal-margin", "ce"},
			},
		),
		Forms:  map[string]Form{"code": {Doc: "sum", Reduction: Sum}},
		Needs:  Observed,
		Tables: []string{"GR"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				pos := Positive(z, o.LogEps)
				if !v.is("positive") {
					m := z.SubScalar(v["margin"])
					pos = focalPositive(m, m, v["gamma"], o.LogEps)
				}
				return o.Reduce(ByLabel(b.Observed, pos, Negative(z, o.LogEps), hillNegative(z, v["lam"])))
			}, nil
		},
		Fused: pointwise("hill", observedLabels, fixed(func(v Values) []float64 {
			if v.is("positive") {
				return []float64{0, 0, v["lam"]}
			}
			return []float64{v["margin"], v["gamma"], v["lam"]}
		})),
	})
}
