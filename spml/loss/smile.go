package loss

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Reconstruction is what SMILE's decoder made of a batch of rows with features x and adjacency A.
type Reconstruction struct {
	X, XRec *torch.Tensor // [B, F]
	YRec    *torch.Tensor // [B, C] in (0, 1)
	A, ARec *torch.Tensor // [B, B]
}

func (r *Reconstruction) check() error {
	for _, t := range []*torch.Tensor{r.X, r.XRec, r.YRec, r.A, r.ARec} {
		if t == nil {
			return fmt.Errorf("loss: a reconstruction needs x, y, A and what the decoder made of them")
		}
	}
	return nil
}

func lgamma(t *torch.Tensor) *torch.Tensor  { return torch.Call("aten::lgamma", t)[0].(*torch.Tensor) }
func digamma(t *torch.Tensor) *torch.Tensor { return torch.Call("aten::digamma", t)[0].(*torch.Tensor) }

// BetaKL is KL(Beta(a, b)‖Beta(1, 1)) elementwise.
func BetaKL(a, b *torch.Tensor) *torch.Tensor {
	sum := a.Add(b)
	return lgamma(sum).Sub(lgamma(a)).Sub(lgamma(b)).
		Add(a.SubScalar(1).Mul(digamma(a))).Add(b.SubScalar(1).Mul(digamma(b))).
		Sub(sum.SubScalar(2).Mul(digamma(sum)))
}

// betaCodeKL is the released expression: the signs of log Γ are wrong and ψ(a+b) is missing.
func betaCodeKL(a, b *torch.Tensor) *torch.Tensor {
	return lgamma(a).Add(lgamma(b)).Add(a.SubScalar(1).Mul(digamma(a))).Add(b.SubScalar(1).Mul(digamma(b)))
}

// assumeNegative is AN of probabilities that are no σ of logits at hand.
func assumeNegative(y, d *torch.Tensor, eps float64) *torch.Tensor {
	return torch.Where(y.EqScalar(1), negLog(d, eps), negLog(d.RsubScalar(1), eps))
}

// Label enhancement: the classifier's step, the encoder's step, and the image variant.
func init() {
	const kl = "The code's divergence has wrong signs (kl=code); the default is KL(Beta‖Beta(1,1))."
	temperature := Param{Name: "temperature", Doc: "T", Source: "code, palm-ml/smile @ 8feb9b8, train_smile2.py: T", Default: 1, Min: 1e-6, Max: inf}
	mustRegister(Entry{
		ID:         "smile",
		WholeBatch: true,
		Aliases:    []string{"smile-img", "smile-image", "label-enhancement"},
		Title:      "label enhancement, image variant",
		Formula:    "θ·(d·sn + (1-d)·sp) + α·AN(p, y) + β·AN(d, y) + r_z·KL_z + r_d·KL(Beta(a, b)‖Beta(1, 1)); d is not detached",
		Source:     "Xu et al. 2022 (SMILE) as MIME's authors run it on images",
		Notes: "The paper's own code is for tabular data (smile-classifier, smile-encoder). Image settings behind GR's " +
			"numbers are unknown. With exact logarithms the enhanced labels keep 1e-4 from 0 and 1. Parts: kl_z, kl_d.",
		Params: []Param{
			{Name: "theta", Doc: "θ, weight of the enhanced labels", Source: "ours, the code of MIME reads this setting and gives it no value", Default: 1, Max: inf},
			{Name: "alpha", Doc: "α, weight of AN on predictions", Source: "ours, the code of MIME reads this setting and gives it no value", Default: 1, Max: inf},
			{Name: "beta", Doc: "β, weight of AN on enhanced labels", Source: "ours, the code of MIME reads this setting and gives it no value", Default: 1, Max: inf},
			{
				Name: "rz", Doc: "r_z, weight of the latent's divergence", Default: 1e-5, Max: inf,
				Source: "code, palm-biaoliu/mime @ 06e15de, utils/losses.py: loss_smile",
			},
			{
				Name: "rd", Doc: "r_d, weight of the labels' divergence", Default: 1e-5, Max: inf,
				Source: "code, palm-biaoliu/mime @ 06e15de, utils/losses.py: loss_smile",
			},
		},
		Forms:     map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:     Observed | SoftLabels | Latents | BetaParameters,
		Estimator: "smile",
		Tables:    []string{"GR"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				d := wide(b.Soft)
				align := SoftCrossEntropy(z, like(d, z), o.LogEps)
				an := weightedNegatives(&b, 1, o.LogEps)
				terms := align.MulScalar(v["theta"]).Add(an.MulScalar(v["alpha"])).Add(assumeNegative(b.Observed, d, o.LogEps).MulScalar(v["beta"]))
				klz, kld := gaussianKL(wide(b.Mean), wide(b.Std)), BetaKL(wide(b.Alpha), wide(b.Beta)).Mean()
				b.report("kl_z", klz)
				b.report("kl_d", kld)
				return o.Reduce(terms).Add(klz.MulScalar(v["rz"])).Add(kld.MulScalar(v["rd"]))
			}, nil
		},
	})
	mustRegister(Entry{
		ID:         "smile-classifier",
		WholeBatch: true,
		Aliases:    []string{"smile-pred"},
		Title:      "label enhancement, classifier step",
		Formula: "W·(τ·sn + (1-τ)·sp) of z/T, τ = μ·sg(d) + (1-μ)·d₂, d₂ = 1 where y = 1, p₀ " +
			"elsewhere; W = 1 where y = 1, else 1/(C-1) or rate; sp where y = -1",
		Source: "Xu et al. 2022 (SMILE), released code",
		Notes:  "The target of an observed positive is μ·d + 1-μ, not 1. Part: target.",
		Params: []Param{
			{Name: "mu", Doc: "μ, share of the enhanced labels", Source: "code, palm-ml/smile @ 8feb9b8, train_smile2.py: mu", Default: 0.5, Max: 1},
			{Name: "p", Doc: "p₀, prior of unknown labels", Source: "ours, (k - 1)/(C - 1) with the expected positives k of elijahcole/single-positive-multi-label", Default: 0.0263, ByData: perData(0.0263, 0.0241, 0.01125, 0.0977), Max: 1},
			{Name: "bias", Doc: "weigh unknown labels by 1/(C-1) instead of rate", Source: "code, palm-ml/smile @ 8feb9b8, train_smile2.py: bias", Default: 1, Choices: noYes},
			{Name: "rate", Doc: "weight of unknown labels without bias", Source: "code, palm-ml/smile @ 8feb9b8, train_smile2.py: rate", Default: 1, Max: inf},
			temperature,
		},
		Forms:     map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:     Observed | SoftLabels,
		Estimator: "smile",
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := tempered(b.Z(), v["temperature"])
				y := b.Observed.EqScalar(1)
				prior := torch.Where(y, z.Detach().OnesLike(), z.Detach().FullLike(v["p"]))
				target := like(b.frozen().Soft.Detach(), z).MulScalar(v["mu"]).Add(prior.MulScalar(1 - v["mu"]))
				b.report("target", target)
				rate := v["rate"]
				if v.is("bias") {
					rate = 1 / float64(max(z.Size(1)-1, 1))
				}
				terms := SoftCrossEntropy(z, target, o.LogEps)
				return o.Reduce(ByLabel(b.Observed, terms, Negative(z, o.LogEps), terms.MulScalar(rate)))
			}, nil
		},
	})
	mustRegister(Entry{
		ID:      "smile-encoder",
		Aliases: []string{"smile-enc"},
		Title:   "label enhancement, encoder step",
		Formula: "AN(D, y) + γ·[MSE(x̂, x) + AN(ŷ, y) + MSE(Â, A)] + δ·KL(Beta(D+1e-6, 1-D+1e-6)‖Beta(1, 1)) with D = σ(v/T), v the encoder's logits",
		Source:  "Xu et al. 2022 (SMILE), released code",
		Notes:   kl + " Its Beta parameters sum to 1, the paper's encoder gives both. Parts: loss_align, rec, kl.",
		Params: []Param{
			{Name: "gamma", Doc: "γ, weight of the reconstructions", Source: "code, palm-ml/smile @ 8feb9b8, train_smile2.py: gamma", Default: 0.001, Max: inf},
			{Name: "delta", Doc: "δ, weight of the divergence", Source: "code, palm-ml/smile @ 8feb9b8, train_smile2.py: delta", Default: 1, Max: inf},
			temperature,
			{Name: "kl", Doc: "divergence", Source: "ours, the proper divergence; the code's has a wrong sign", Choices: []string{"proper", "code"}},
		},
		Forms: map[string]Form{
			"code": {Doc: "log epsilon 1e-5, the code's divergence", LogEps: 1e-5, Set: Values{"kl": 1}},
		},
		Needs:     Observed | Reconstructions,
		Estimator: "smile",
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := tempered(b.Z(), v["temperature"])
				b.Logits = z
				r := b.Reconstruction
				align := o.Reduce(weightedNegatives(&b, 1, o.LogEps))
				rec := wide(r.XRec).MseLoss(wide(r.X), torch.ReductionMean).
					Add(assumeNegative(b.Observed, wide(r.YRec), o.LogEps).Mean()).
					Add(wide(r.ARec).MseLoss(wide(r.A), torch.ReductionMean))
				d, f := z.Sigmoid().AddScalar(1e-6), z.Neg().Sigmoid().AddScalar(1e-6)
				kl := BetaKL
				if v.is("kl") {
					kl = betaCodeKL
				}
				divergence := kl(d, f).Mean()
				b.report("loss_align", align)
				b.report("rec", rec)
				b.report("kl", divergence)
				return align.Add(rec.MulScalar(v["gamma"])).Add(divergence.MulScalar(v["delta"]))
			}, nil
		},
	})
}
