package loss

import "github.com/gospml/gospml/torch"

// KnownNegative is a known negative in Batch.Labels, where -1 is a negative with soft target 1.
const KnownNegative = -2

// Entropy maximisation with asymmetric pseudo-labelling.
func init() {
	mustRegister(Entry{
		ID:      "em-apl",
		Aliases: []string{"apl", "em+apl", "asymmetric-pseudo-labeling"},
		Title:   "entropy maximisation with asymmetric pseudo-labels",
		Formula: "sn where Y = 1; sp where Y = -2, a known negative; -α·H(p) where Y = 0; β·(s·sn + (1-s)·sp) " +
			"where Y = -s < 0",
		Source: "Zhou et al. 2022",
		Notes: "s is constant: the score at the time a label was given. The labels come from a pass over the whole " +
			"training set after each epoch from the warm-up on. The released pass uses the shuffled, mirrored training " +
			"loader and gives no label at all to a set that fits in one batch; its last round, after the last epoch, is " +
			"not used. A score that underflows to 0 leaves its label unknown.",
		Params: []Param{
			entropyWeight("paper, em Table 5: EM alpha"),
			{Name: "beta", Doc: "β, weight of soft negatives", Source: "paper, em Table 5: APL beta", Default: 0.02, ByData: perData(0.02, 0.9, 0.2, 0.4), Max: inf},
			{Name: "theta", Doc: "θ, share of unknown labels that become negatives (read by the estimator)", Source: "paper, em Sec. C.3: APL theta%", Default: 0.9, Max: 1},
			{Name: "warmup", Doc: "T_w, epochs before the first labels (read by the estimator)", Source: "paper, em Table 5: APL warm-up T_w", Default: 5, ByData: perData(5, 5, 4, 3), Max: inf},
		},
		Forms:     map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:     SoftNegatives,
		Estimator: "apl", EstimatorNeeds: SampleIDs | Previous | Epoch,
		Tables: []string{"EM", "VLPL", "GR", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				y := like(b.Labels, z)
				soft := SoftCrossEntropy(z, y.Neg(), o.LogEps).MulScalar(v["beta"])
				unknown := Entropy(z, o.LogEps).MulScalar(-v["alpha"])
				known := torch.Where(y.EqScalar(KnownNegative), Negative(z, o.LogEps), soft)
				return o.Reduce(torch.Where(y.EqScalar(1), Positive(z, o.LogEps), torch.Where(y.LtScalar(0), known, unknown)))
			}, nil
		},
		Fused: pointwise("em_apl", func(b *Batch) (first, second *torch.Tensor) { return b.Labels, nil },
			fixed(func(v Values) []float64 { return []float64{v["alpha"], v["beta"]} })),
	})
}
