package loss

import "github.com/gospml/gospml/torch"

// weightedNegatives is y·sn + w·(1-y)·sp: AN with w = 1, WAN with 1/(C-1), DW with any.
func weightedNegatives(b *Batch, w, eps float64) *torch.Tensor {
	z := b.Z()
	neg := Negative(z, eps)
	unknown := neg
	if w != 1 {
		unknown = neg.MulScalar(w)
	}
	return ByLabel(b.Observed, Positive(z, eps), neg, unknown)
}

// Assume negative, and its two weighted forms.
func init() {
	mustRegister(Entry{
		ID:      "an",
		Aliases: []string{"assume-negative", "an-bce"},
		Title:   "assume negative",
		Formula: "y·sn + (1-y)·sp; gradient p - y",
		Source:  "Cole et al. 2021, eq. (3)",
		Notes:   "Log epsilon 1e-5 in the code of Cole, EM, VLPL, MIME and SMILE, 1e-7 in AEVLP's; exact in LL's and LAC's. LAC's text sums over classes, its code averages over B·C.",
		Forms:   map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:   Observed,
		Tables:  []string{"Cole", "VLPL", "GR", "LAC"},
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor { return o.Reduce(weightedNegatives(&b, 1, o.LogEps)) }, nil
		},
		Fused: pointwise("an", observedLabels, fixed(func(Values) []float64 { return []float64{1} })),
	})
	mustRegister(Entry{
		ID:      "wan",
		Aliases: []string{"weak-assume-negative"},
		Title:   "weak assume negative",
		Formula: "y·sn + γ·(1-y)·sp with γ = 1/(C-1)",
		Source:  "Cole et al. 2021",
		Notes:   "Divided by B·C, not by the sum of the weights. With one class γ is 1.",
		Forms:   map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:   Observed,
		Tables:  []string{"Cole", "LAC"},
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				return o.Reduce(weightedNegatives(&b, 1/float64(max(b.Logits.Size(1)-1, 1)), o.LogEps))
			}, nil
		},
		Fused: pointwise("an", observedLabels, func(Values) func(b *Batch) []float64 {
			return func(b *Batch) []float64 { return []float64{1 / float64(max(b.Logits.Size(1)-1, 1))} }
		}),
	})
	mustRegister(Entry{
		ID:      "dw",
		Aliases: []string{"down-weighted-negatives"},
		Title:   "down-weighted negatives",
		Formula: "y·sn + w·(1-y)·sp",
		Source:  "Zhou et al. 2022, supplement",
		Notes:   "No released code. VLPL's table cites Cole, but numbers and weights come from EM's supplement.",
		Params: []Param{{
			Name: "neg_weight", Doc: "w, weight of assumed negatives", Source: "paper, em Sec. C.3: DW weight", Default: 0.1, ByData: perData(0.1, 0.1, 0.1, 0.02), Max: inf,
		}},
		Needs:  Observed,
		Tables: []string{"EM", "VLPL"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				return o.Reduce(weightedNegatives(&b, v["neg_weight"], o.LogEps))
			}, nil
		},
		Fused: pointwise("an", observedLabels, fixed(func(v Values) []float64 { return []float64{v["neg_weight"]} })),
	})
}
