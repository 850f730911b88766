package loss

import "github.com/gospml/gospml/torch"

// Entropy of unknown labels, maximised (EM) or minimised (EntMin).
func init() {
	mustRegister(Entry{
		ID:      "em",
		Aliases: []string{"entropy-maximization", "entropy-maximisation"},
		Title:   "entropy maximisation",
		Formula: "y·sn - α·(1-y)·H(p); gradient -y·n + α·(1-y)·z·p·n",
		Source:  "Zhou et al. 2022, eq. (4)",
		Notes:   "The loss can be negative, down to -α·ln 2. The code has log epsilon 1e-5 and stops at the first epoch without a better validation mAP. For thresholds the authors advise 0.75 instead of 0.5, because negatives sit near 0.5.",
		Params:  []Param{entropyWeight("paper, em Table 5: EM alpha")},
		Forms:   map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:   Observed,
		Tables:  []string{"EM", "VLPL", "GR", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				unknown := Entropy(z, o.LogEps).MulScalar(-v["alpha"])
				return o.Reduce(ByLabel(b.Observed, Positive(z, o.LogEps), Negative(z, o.LogEps), unknown))
			}, nil
		},
		Fused: pointwise("em", observedLabels, fixed(func(v Values) []float64 { return []float64{v["alpha"]} })),
	})
	mustRegister(Entry{
		ID:      "entmin",
		Aliases: []string{"entropy-minimization", "entropy-minimisation"},
		Title:   "entropy minimisation",
		Formula: "y·sn + λ·(1-y)·H(p), which is EM with α = -λ",
		Source:  "Grandvalet & Bengio 2005, as a baseline of Zhou et al. 2022, supplement",
		Notes:   "No released code; the supplement does not say whether unknown labels are also assumed negative. The published mAP is only plausible without (the default); with_an adds sp. Unknown logits run away from 0 to either side. LAC's text uses this name for EM+APL.",
		Params: []Param{
			{Name: "strength", Doc: "λ", Source: "paper, em Sec. C.3: EntMin strength", Default: 0.01, ByData: perData(0.01, 0.9, 0.4, 0.4), Max: inf},
			{Name: "with_an", Doc: "add sp for unknown labels", Source: "ours, the supplement does not say; the published mAP is only plausible without", Choices: noYes},
		},
		Needs:  Observed,
		Tables: []string{"EM", "VLPL"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				neg := Negative(z, o.LogEps)
				unknown := Entropy(z, o.LogEps).MulScalar(v["strength"])
				if v.is("with_an") {
					unknown = unknown.Add(neg)
				}
				return o.Reduce(ByLabel(b.Observed, Positive(z, o.LogEps), neg, unknown))
			}, nil
		},
		Fused: pointwise("entmin", observedLabels, fixed(func(v Values) []float64 { return []float64{v["strength"], v["with_an"]} })),
	})
}

func entropyWeight(source string) Param {
	return Param{Name: "alpha", Doc: "α, weight of the entropy of unknown labels", Source: source, Default: 0.2, ByData: perData(0.2, 0.1, 0.1, 0.01), Max: inf}
}
