package loss

import "github.com/gospml/gospml/torch"

// Vision-language pseudo-labels.
func init() {
	mustRegister(Entry{
		ID:      "vlpl",
		Aliases: []string{"vision-language-pseudo-labels"},
		Title:   "vision-language pseudo-labels",
		Formula: "sn where y = 1; else β(ρ·sn + (1-ρ)·sp) where ℓ = 1; γ(ρ·sp + (1-ρ)·sn) where ℓ = -1; -α·H(p) where ℓ = 0",
		Source:  "Xing et al. 2024, eq. (5)",
		Notes:   "The paper's eq. (5) has wrong signs; its section on label smoothing and the code agree with the formula above. Its ε is ρ here. In the released loss the branch of ℓ = -1 is commented out, so that such entries count 0 (γ = 0, the default); without smoothing (ρ = 1) it has no such branch and they count as undefined. The paper has one learning rate, the code 1e-4 for CUB.",
		Params: []Param{
			entropyWeight("code, mvrl/VLPL @ ed09b59, main_clip.py: alpha"),
			{Name: "beta_pos", Doc: "β, weight of positive pseudo-labels", Source: "code, mvrl/VLPL @ ed09b59, main_clip.py: beta_pos", Default: 0.7, Max: inf},
			{Name: "gamma_neg", Doc: "γ, weight of negative pseudo-labels", Source: "paper, vlpl Sec. 4.5: pseudo-negatives in the final method", Max: inf},
			{Name: "rho", Doc: "ρ, target of a pseudo-label", Source: "paper, vlpl Sec. 4.6: label smoothing epsilon of pseudo-labels", Default: 0.9, Max: 1},
		},
		Forms: map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs: Observed | PseudoLabels,

		Estimator: "vlpl",
		Tables:    []string{"VLPL"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				pseudoPositive := CrossEntropy(z, v["rho"], o.LogEps).MulScalar(v["beta_pos"])
				pseudoNegative := CrossEntropy(z, 1-v["rho"], o.LogEps).MulScalar(v["gamma_neg"])
				undefined := Entropy(z, o.LogEps).MulScalar(-v["alpha"])
				if v["gamma_neg"] == 0 && v["rho"] == 1 {
					pseudoNegative = undefined
				}
				unknown := ByLabel(b.Pseudo, pseudoPositive, pseudoNegative, undefined)
				return o.Reduce(ByLabel(b.Observed, Positive(z, o.LogEps), Negative(z, o.LogEps), unknown))
			}, nil
		},
		Fused: batchwise("vlpl", 1, observedAndPseudo, fixed(func(v Values) []float64 {
			return []float64{v["alpha"], v["beta_pos"], v["gamma_neg"], v["rho"]}
		}), nil),
	})
}
