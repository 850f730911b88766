package loss

import "github.com/gospml/gospml/torch"

// The two cross-entropy terms in both numerical modes. eps = 0 is exact: finite for every finite logit, gradients -n and p.
// eps > 0 is -log(x+eps), as the released code of several papers has it; its gradients vanish beyond |z| ≈ -log eps.

// positive is CE⁺ = -log p.
func positive(z *torch.Tensor, eps float64) *torch.Tensor {
	if eps == 0 {
		return z.LogSigmoid().Neg()
	}
	return z.Sigmoid().AddScalar(eps).Log().Neg()
}

// negative is CE⁻ = -log(1-p), with 1-p taken as σ(-z).
func negative(z *torch.Tensor, eps float64) *torch.Tensor { return positive(z.Neg(), eps) }

// entropy is H(p) = p·(-log p) + (1-p)·(-log(1-p)), natural logarithm.
func entropy(z *torch.Tensor, eps float64) *torch.Tensor {
	p, n := z.Sigmoid(), z.Neg().Sigmoid()
	return p.Mul(positive(z, eps)).Add(n.Mul(negative(z, eps)))
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
