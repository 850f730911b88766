package loss

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Generalised pseudo-label robust loss.
func init() {
	mustRegister(Entry{
		ID:         "gpr",
		WholeBatch: true,
		Aliases:    []string{"gpr-loss", "aevlp", "gpr+damp"},
		Title:      "generalised pseudo-label robust loss",
		Formula:    "sn where y = 1; else v₄(ρ·sn + (1-ρ)·sp) where ℓ = 1; v₃·sp where ℓ = -1; GR's term with v₃ where ℓ = 0; plus η·R_m; v₃ = v(sg(p)), v₄ = 1-v₃ clipped to [λ₁, λ₂]",
		Source:     "Tran et al. 2025 (AEVLP), eqs. (3)-(4) as restated by its supplement and code",
		Notes: "In the code lam is [upper, lower], in the tables (lower, upper). The released DAMP writes 0 where " +
			"it means -1, so that negative pseudo-labels never reach the loss. The supplement's q1, q2, q3 = 1, 0.01, 0.9 " +
			"are read as q3, q2, ρ. On CUB the paper starts b at -4, the released configuration at -2. Without " +
			"pseudo-labels and with η = 0 it is GR. R_m is not scaled by the reduction. Known negatives have sp and count " +
			"0 in m̂; a negative pseudo-label is a guess and counts. Parts: main, reg.",
		Params: append(append(exponents(false, "code, Fsoft-AIC/AEVLP @ 0bad82a, configs/*.json: q2q3", "code, Fsoft-AIC/AEVLP @ 0bad82a, configs/*.json: q2q3"),
			Param{Name: "lam_lo", Doc: "λ₁, least weight of a positive pseudo-label", Source: "paper, aevlp Table 3: lambda_1, lambda_2", Default: 0.4, ByData: perData(0.4, 0.5, 0.5, 0.2), Max: 1},
			Param{Name: "lam_hi", Doc: "λ₂, largest weight of a positive pseudo-label", Source: "paper, aevlp Table 3: lambda_1, lambda_2", Default: 0.7, ByData: perData(0.7, 0.7, 0.7, 0.8), Max: 1},
			Param{Name: "rho", Doc: "ρ, target of a positive pseudo-label", Source: "paper, aevlp Table 3: q3", Default: 0.9, Max: 1},
			Param{Name: "eta", Doc: "η, weight of the regulariser", Source: "paper, aevlp Table 3: eta", Default: 0.05, ByData: perData(0.05, 0.001, 0.001, 0.01), Max: inf},
			expectedPositives("m_pos")), scheduleParams(gprSchedule)...),
		Forms: map[string]Form{
			"paper": {Doc: "t/T; on CUB b starts at -4 and q3 is 1", Set: Values{"schedule": 1}, ByData: map[string]Values{"cub": {"b0": -4, "q3": 1}}},
			"code":  {Doc: "log epsilon 1e-7", LogEps: 1e-7},
		},
		Needs:     Observed | PseudoLabels | Epoch,
		Estimator: "damp",
		Tables:    []string{"AEVLP"},
		New: func(v Values, o Options) (Func, error) {
			if v["lam_lo"] > v["lam_hi"] {
				return nil, fmt.Errorf("lam_lo is %v and lam_hi %v: the lower bound comes first (the released configuration has [upper, lower])", v["lam_lo"], v["lam_hi"])
			}
			s, err := PointsOf(v)
			if err != nil {
				return nil, err
			}
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				k, v3 := b.curves(s)
				v4 := v3.RsubScalar(1).Clamp(v["lam_lo"], v["lam_hi"])
				neg := Negative(z, o.LogEps)
				pos := v4.Mul(CrossEntropy(z, v["rho"], o.LogEps))
				unknown := ByLabel(b.Pseudo, pos, v3.Mul(neg), grUnknown(z, k, v3, v["q2"], v["q3"]))
				main := o.Reduce(ByLabel(b.Observed, Positive(z, o.LogEps), neg, unknown))
				reg := countRegulariser(z, b.Observed, v["m_pos"])
				b.report("main", main)
				b.report("reg", reg)
				return main.Add(reg.MulScalar(v["eta"]))
			}, nil
		},
		Fused: fusedGPR(),
	})
}

func fusedGPR() *FusedForm {
	return batchwise("gpr", 1, observedAndPseudo, func(v Values) func(b *Batch) []float64 {
		s, _ := PointsOf(v) // New has refused a bad one
		return func(b *Batch) []float64 {
			at := b.point(s)
			return []float64{at.W, at.B, at.Mu, at.Sigma, v["q2"], v["q3"], v["lam_lo"], v["lam_hi"], v["rho"], v["eta"], v["m_pos"]}
		}
	}, func(v Values, _ Options) func(b *Batch, value *torch.Tensor) {
		return func(b *Batch, value *torch.Tensor) { reportRegularised(b, value, v["m_pos"], v["eta"]) }
	}).except("with Batch.Trainable", func(b *Batch) string {
		if b.Trainable != nil {
			return "the parameters of Batch.Trainable get gradients from the composed form"
		}
		return ""
	})
}
