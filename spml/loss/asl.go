package loss

import "github.com/gospml/gospml/torch"

// Asymmetric loss with unknown labels assumed negative.
func init() {
	mustRegister(Entry{
		ID:      "asl",
		Aliases: []string{"asymmetric-loss"},
		Title:   "asymmetric loss",
		Formula: "y·n^γ⁺·sn + (1-y)·p_m^γ⁻·(-log(1-p_m)) with p_m = max(p-m, 0)",
		Source:  "Ridnik et al. 2021, on assumed negatives as in Zhou et al. 2022, supplement",
		Notes:   "The official training takes the focusing weights as constant, which the paper does not mention: detached is the default. The code sums, clamps every logarithm's argument at 1e-8 and has γ⁺ = 1 as its class default, the paper 0. Calling the code switches autograd on again even where the caller had it off; not so here.",
		Params: []Param{
			{Name: "gamma_pos", Doc: "γ⁺", Source: "paper, em Sec. C.3: ASL gamma+", Max: inf},
			{Name: "gamma_neg", Doc: "γ⁻", Source: "paper, em Sec. C.3: ASL gamma-", Default: 2, ByData: perData(2, 2, 2, 1), Max: inf},
			{Name: "margin", Doc: "m", Source: "paper, em Sec. C.3: ASL margin m", Default: 0.2, ByData: perData(0.2, 0.2, 0.2, 0), Max: 1},
			{Name: "detach_weight", Doc: "the focusing weights have no gradient", Source: "code, Alibaba-MIIL/ASL @ 8c9e0bd, src/loss_functions/losses.py: disable_torch_grad_focal_loss", Default: 1, Choices: noYes},
			{Name: "clamp", Doc: "least argument of a logarithm", Source: "ours, exact logarithms unless the code's form is asked for", Max: 1},
		},
		Forms: map[string]Form{
			"paper": {Doc: "γ⁺ 0, γ⁻ 4, m 0.05, weights differentiated, sum", Set: Values{"gamma_pos": 0, "gamma_neg": 4, "margin": 0.05, "detach_weight": 0}, Reduction: Sum},
			"code":  {Doc: "class defaults: γ⁺ 1, γ⁻ 4, m 0.05, detached, clamp 1e-8, sum", Set: Values{"gamma_pos": 1, "gamma_neg": 4, "margin": 0.05, "clamp": 1e-8}, Reduction: Sum},
		},
		Needs:  Observed,
		Tables: []string{"EM", "VLPL"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				w := z
				if v.is("detach_weight") {
					w = b.constants()
				}
				return o.Reduce(torch.Where(b.Observed.EqScalar(1), aslPositive(z, w, v, o.LogEps), aslNegative(z, w, v, o.LogEps)))
			}, nil
		},
		Fused: pointwise("asl", observedLabels, fixed(func(v Values) []float64 {
			return []float64{v["gamma_pos"], v["gamma_neg"], v["margin"], v["detach_weight"], v["clamp"]}
		})),
	})
}

// aslPositive and aslNegative take their focusing weights of the logits w: z, or constants.
func aslPositive(z, w *torch.Tensor, v Values, eps float64) *torch.Tensor {
	ce := Positive(z, eps)
	if c := v["clamp"]; c > 0 {
		ce = negLog(z.Sigmoid().ClampMin(c), eps)
	}
	if v["gamma_pos"] == 0 {
		return ce
	}
	return powP(w.Neg(), v["gamma_pos"]).Mul(ce)
}

func aslNegative(z, w *torch.Tensor, v Values, eps float64) *torch.Tensor {
	m, gamma, clamp := v["margin"], v["gamma_neg"], v["clamp"]
	ce := Negative(z, eps)
	if n := z.Neg().Sigmoid(); m > 0 {
		ce = negLog(n.AddScalar(m).ClampMax(1).ClampMin(clamp), eps)
	} else if clamp > 0 {
		ce = negLog(n.ClampMin(clamp), eps)
	}
	switch {
	case gamma == 0:
		return ce
	case m == 0:
		return powP(w, gamma).Mul(ce)
	}
	// At p = m a power below 1 has no finite derivative: there the weight is 0, as a constant.
	pm := w.Sigmoid().SubScalar(m).ClampMin(0)
	easy := pm.EqScalar(0)
	return torch.Where(easy, pm.ZerosLike(), torch.Where(easy, pm.OnesLike(), pm).Pow(gamma)).Mul(ce)
}
