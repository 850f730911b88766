package loss

import "github.com/gospml/gospml/torch"

// The two cross-entropy terms in both numerical modes. eps = 0 is exact: finite for every finite logit, gradients -n and p.
// eps > 0 is -log(x+eps), as the released code of several papers has it; its gradients vanish beyond |z| ≈ -log eps.

// Positive is CE⁺: -log p, or -log(p+eps), for every entry of z.
func Positive(z *torch.Tensor, eps float64) *torch.Tensor {
	if eps == 0 {
		return z.LogSigmoid().Neg()
	}
	return negLog(z.Sigmoid(), eps)
}

// Negative is CE⁻: -log(1-p), or -log(1-p+eps), with 1-p taken as σ(-z).
func Negative(z *torch.Tensor, eps float64) *torch.Tensor { return Positive(z.Neg(), eps) }

// negLog is -log(x+eps) of a probability.
func negLog(x *torch.Tensor, eps float64) *torch.Tensor { return x.AddScalar(eps).Log().Neg() }

// Entropy is H(p) = p·(-log p) + (1-p)·(-log(1-p)), natural logarithm.
func Entropy(z *torch.Tensor, eps float64) *torch.Tensor {
	p, n := z.Sigmoid(), z.Neg().Sigmoid()
	return p.Mul(Positive(z, eps)).Add(n.Mul(Negative(z, eps)))
}

// CrossEntropy is τ·CE⁺ + (1-τ)·CE⁻ for a constant target.
func CrossEntropy(z *torch.Tensor, target, eps float64) *torch.Tensor {
	return Positive(z, eps).MulScalar(target).Add(Negative(z, eps).MulScalar(1 - target))
}

// SoftCrossEntropy is the same for a tensor of targets.
func SoftCrossEntropy(z, target *torch.Tensor, eps float64) *torch.Tensor {
	return target.Mul(Positive(z, eps)).Add(target.RsubScalar(1).Mul(Negative(z, eps)))
}

// powP is p^γ as exp(γ·log p): its derivatives stay finite where p underflows.
func powP(z *torch.Tensor, gamma float64) *torch.Tensor {
	return z.LogSigmoid().MulScalar(gamma).Exp()
}

// focalPositive is (1-p)^γ·(-log p), the weight taken of the logits w: z, or constants.
func focalPositive(z, w *torch.Tensor, gamma, eps float64) *torch.Tensor {
	ce := Positive(z, eps)
	if gamma == 0 {
		return ce
	}
	return powP(w.Neg(), gamma).Mul(ce)
}

// focalNegative is p^γ·(-log(1-p)).
func focalNegative(z, w *torch.Tensor, gamma, eps float64) *torch.Tensor {
	return focalPositive(z.Neg(), w.Neg(), gamma, eps)
}

// gce is the generalised cross-entropy (1-p^q)/q of Zhang & Sabuncu 2018, -log p for q = 0; its gradient is -p^q·n.
func gce(z *torch.Tensor, q float64) *torch.Tensor {
	if q == 0 {
		return Positive(z, 0)
	}
	return z.LogSigmoid().MulScalar(q).Expm1().DivScalar(-q)
}

// ByLabel takes pos where y = 1 (an observed positive), neg where y = -1 (an observed negative), unknown elsewhere.
func ByLabel(y, pos, neg, unknown *torch.Tensor) *torch.Tensor {
	return torch.Where(y.EqScalar(1), pos, torch.Where(y.EqScalar(-1), neg, unknown))
}

// mask is a condition as 0 and 1 of z's type. Terms are multiplied by it, so that NaN stays NaN.
func mask(condition, z *torch.Tensor) *torch.Tensor { return condition.ToDType(z.DType()) }

// countRegulariser is R_k = ((m̂-k)/C)², m̂ the mean over the batch of the sum of p (or θ) over the classes. A
// label that is known to be negative counts 0 there, whatever its score: k is the number of positives that an image
// has, and it is none of them.
func countRegulariser(z, y *torch.Tensor, k float64) *torch.Tensor {
	p := z.Sigmoid()
	m := torch.Where(y.EqScalar(-1), p.MulScalar(0), p).Sum().DivScalar(float64(z.Size(0)))
	return m.SubScalar(k).DivScalar(float64(z.Size(1))).Square()
}

// Reduction says how the matrix of terms becomes one number.
type Reduction string

// Reductions. Mean divides by B·C, BatchMean by B, Sum not at all; B is the batch's actual number of rows.
const (
	Mean      Reduction = "mean"
	Sum       Reduction = "sum"
	BatchMean Reduction = "batch"
)

func (r Reduction) apply(terms *torch.Tensor) *torch.Tensor {
	switch r {
	case Sum:
		return terms.Sum()
	case BatchMean:
		return terms.Sum().DivScalar(float64(terms.Size(0)))
	default:
		return terms.Sum().DivScalar(float64(terms.Numel()))
	}
}
