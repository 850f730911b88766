package loss

import "github.com/gospml/gospml/torch"

func exponents(q1 bool, q2, q3 string) []Param {
	p := []Param{
		{Name: "q2", Doc: "exponent of the positive surrogate", Source: q2, Default: 0.01, Max: inf},
		{Name: "q3", Doc: "exponent of the negative surrogate", Source: q3, Default: 1, ByData: perData(1, 1, 1, 1.5), Max: inf},
	}
	if q1 {
		p = append([]Param{{Name: "q1", Doc: "exponent for observed positives; 0 is sn", Source: "code, yan4xi1/GRLoss @ 5e13f7f, losses.py: the cross-entropy of observed positives", Max: inf}}, p...)
	}
	return p
}

// grUnknown is v·[ k̂·(1-p^q2)/q2 + (1-k̂)·(1-(1-p)^q3)/q3 ].
func grUnknown(z, k, v *torch.Tensor, q2, q3 float64) *torch.Tensor {
	return Unified(k, v, gce(z, q2), gce(z.Neg(), q3))
}

// Generalised robust loss.
func init() {
	mustRegister(Entry{
		ID:      "gr",
		Aliases: []string{"gr-loss", "generalized-robust-loss"},
		Title:   "generalised robust loss",
		Formula: "sn (or (1-p^q1)/q1) where y = 1, else v·[k̂·(1-p^q2)/q2 + (1-k̂)·(1-(1-p)^q3)/q3]; k̂ = σ(w·p+b), v = exp(-(p-μ)²/2σ²), both of sg(p)",
		Source:  "Chen et al. 2024, eq. (4) and Table 1",
		Notes:   "The paper divides by N only and has q1 = 0.01, the code divides by N·C and has sn with epsilon 1e-7. The schedule runs over the epochs by the paper's t/T or the code's offsets (w and b stop one step short). Powers are taken in closed form: the code gives NaN for p = 1 with q3 < 1 and for underflowing p with q2 < 1. With Batch.Trainable the four parameters learn; their released path refers to a variable that does not exist.",
		Params:  append(exponents(true, "paper, gr Table 6: q2", "paper, gr Table 6: q3"), scheduleParams(grSchedule)...),
		Forms: map[string]Form{
			"paper": {Doc: "q1 = 0.01, t/T, divided by B only", Set: Values{"q1": 0.01, "schedule": 1}, Reduction: BatchMean},
			"code":  {Doc: "log epsilon 1e-7", LogEps: 1e-7},
		},
		Needs:     Observed | Epoch,
		Estimator: "schedule",
		Tables:    []string{"GR"},
		New: func(v Values, o Options) (Func, error) {
			s, err := PointsOf(v)
			if err != nil {
				return nil, err
			}
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				k, w := b.curves(s)
				pos := Positive(z, o.LogEps)
				if v["q1"] > 0 {
					pos = gce(z, v["q1"])
				}
				return o.Reduce(ByLabel(b.Observed, pos, Negative(z, o.LogEps), grUnknown(z, k, w, v["q2"], v["q3"])))
			}, nil
		},
		Fused: pointwise("gr", observedLabels, func(v Values) func(b *Batch) []float64 {
			s, _ := PointsOf(v) // checked by New
			return func(b *Batch) []float64 {
				at := b.point(s)
				return []float64{at.W, at.B, at.Mu, at.Sigma, v["q1"], v["q2"], v["q3"]}
			}
		}).except("with Batch.Trainable", func(b *Batch) string {
			if b.Trainable != nil {
				return "Batch.Trainable receives gradients"
			}
			return ""
		}),
	})
}
