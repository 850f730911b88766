package loss

import "github.com/gospml/gospml/torch"

// Self-paced loss correction.
func init() {
	mustRegister(Entry{
		ID:      "splc",
		Aliases: []string{"self-paced-loss-correction"},
		Title:   "self-paced loss correction",
		Formula: "focal⁺(z-m) where y = 1; focal⁺(z) on unknown labels with p > τ from the second epoch on; else focal⁻(z)",
		Source:  "Zhang et al. 2021 (Simple and Robust Loss Design)",
		Notes: "The paper has the margin also for corrected labels, the code does not (default). GR's Table 1 has " +
			"Hill as the negative branch (neg=hill); the released class focal⁻. The code sums and counts epochs from 0. " +
			"Corrections are made anew in every batch. Known negatives are never corrected; with neg=hill they have sp. " +
			"Part: corrected.",
		Params: append(focalMargin(),
			Param{Name: "tau", Doc: "τ", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: tau", Default: 0.6, Max: 1},
			Param{Name: "change_epoch", Doc: "epochs before the first correction", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: change_epoch", Default: 1, Max: inf},
			Param{Name: "corrected_margin", Doc: "margin of corrected labels", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: the margin before the test"},
			Param{Name: "neg", Doc: "loss of negatives", Source: "code, xinyu1205/robust-loss-mlml @ dcfa4d5, src/loss_functions/losses.py: SPLC with focal margin", Choices: []string{"focal", "hill"}},
		),
		Forms: map[string]Form{
			"paper": {Doc: "margin also for corrected labels, Hill negatives", Set: Values{"corrected_margin": 1, "neg": 1}},
			"code":  {Doc: "sum", Reduction: Sum},
		},
		Needs:  Observed | Epoch,
		Tables: []string{"GR"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				focal := func(margin float64) *torch.Tensor {
					m := z.SubScalar(margin)
					return focalPositive(m, m, v["gamma"], o.LogEps)
				}
				neg := focalNegative(z, z, v["gamma"], o.LogEps)
				known := neg
				if v.is("neg") {
					neg, known = hillNegative(z, v["lam"]), Negative(z, o.LogEps)
				}
				corrected := b.corrected(v)
				b.report("corrected", corrected)
				unknown := torch.Where(corrected, focal(v["corrected_margin"]), neg)
				return o.Reduce(ByLabel(b.Observed, focal(v["margin"]), known, unknown))
			}, nil
		},
		Fused: pointwise("splc", observedLabels, func(v Values) func(b *Batch) []float64 {
			late := []float64{v["tau"], v["margin"], v["gamma"], v["corrected_margin"], v["neg"], v["lam"]}
			early := append([]float64{1}, late[1:]...) // no score is above 1
			return func(b *Batch) []float64 {
				if b.Epoch-1 < v.whole("change_epoch") {
					return early
				}
				return late
			}
		}).reporting(func(b *Batch, v Values) { b.report("corrected", b.corrected(v)) }),
	})
}

// corrected are the unknown labels that count as positives.
func (b *Batch) corrected(v Values) *torch.Tensor {
	c := b.constants().Sigmoid().GtScalar(v["tau"]).LogicalAnd(b.Observed.EqScalar(0))
	if b.Epoch-1 < v.whole("change_epoch") {
		return c.ZerosLike()
	}
	return c
}
