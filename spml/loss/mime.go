package loss

import "github.com/gospml/gospml/torch"

// gaussianKL is the mean of KL(N(μ, σ²)‖N(0, 1)) over all latent entries.
func gaussianKL(mean, std *torch.Tensor) *torch.Tensor {
	return std.Log().MulScalar(2).AddScalar(1).Sub(mean.Square()).Sub(std.Square()).MulScalar(-0.5).Mean()
}

// Mutual label enhancement.
func init() {
	mustRegister(Entry{
		ID:         "mime",
		WholeBatch: true,
		Aliases:    []string{"mutual-label-enhancement"},
		Title:      "mutual label enhancement",
		Formula:    "AN(z/T, y) + β·mean[-½(1 + 2·ln σ_z - μ_z² - σ_z²)]; y grows by the labels with p > θ",
		Source:     "Liu et al. 2023 (MIME), released code",
		Notes: "The divergence is averaged over the latent's entries, not summed. The released scoring passes sample the " +
			"latent, and that of the training images skips the last ones of the shuffled loader; here the latent is its mean, " +
			"and no image is skipped. The published numbers come from a label-wise embedding network. Parts: kl.",
		Params: []Param{
			{Name: "beta", Doc: "β, weight of the divergence", Source: "code, palm-biaoliu/mime @ 06e15de, train_mime.py: beta", Default: 1e-4, Max: inf},
			{Name: "temperature", Doc: "T", Source: "code, palm-biaoliu/mime @ 06e15de, train_mime.py: T", Default: 1, Min: 1e-6, Max: inf},
			{Name: "theta", Doc: "θ, score that makes a label positive for good (read by the estimator)", Source: "code, palm-biaoliu/mime @ 06e15de, train_mime.py: theta", Default: 0.95, Max: 1},
			{Name: "warmup", Doc: "T_w (read by the estimator)", Source: "code, palm-biaoliu/mime @ 06e15de, train_mime.py: warmup_epoch", Default: 2, ByData: perData(2, 2, 2, 5), Max: inf},
		},
		Forms:     map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:     Observed | Latents,
		Estimator: "threshold", EstimatorNeeds: SampleIDs | Epoch | Previous,
		Tables: []string{"GR"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				b.Logits = tempered(b.Z(), v["temperature"])
				kl := gaussianKL(wide(b.Mean), wide(b.Std))
				b.report("kl", kl)
				return o.Reduce(weightedNegatives(&b, 1, o.LogEps)).Add(kl.MulScalar(v["beta"]))
			}, nil
		},
	})
}

func tempered(z *torch.Tensor, t float64) *torch.Tensor {
	if t == 1 {
		return z
	}
	return z.DivScalar(t)
}
