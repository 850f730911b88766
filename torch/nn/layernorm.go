package nn

import "github.com/gospml/gospml/torch"

// LayerNorm normalises the last dimensions of each element (torch.nn.LayerNorm; Ba et al. 2016, arXiv:1607.06450):
// y = (x - mean) / √(var + Eps) · Weight + Bias, with the biased variance.
type LayerNorm struct {
	Weight *torch.Tensor // NormalizedShape; nil with Affine(false)
	Bias   *torch.Tensor // NormalizedShape; nil with Affine(false) or Bias(false)

	NormalizedShape []int
	Eps             float64
}

// NewLayerNorm normalises dimensions of this shape and starts with gain 1 and bias 0. Options: Eps, Affine, Bias, DType,
// Device, Generator, NoInit.
func NewLayerNorm(normalizedShape []int, opts ...Option) *LayerNorm {
	c := gather("nn.NewLayerNorm", factory+"Eps Affine Bias ", opts)
	l := &LayerNorm{NormalizedShape: append([]int(nil), normalizedShape...), Eps: c.eps}
	if c.affine {
		l.Weight = c.ones(normalizedShape...)
		if c.bias {
			l.Bias = c.zeros(normalizedShape...)
		}
		trained(l.Weight, l.Bias)
	}
	return l
}

// Forward keeps the shape [*, NormalizedShape…].
func (l *LayerNorm) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.LayerNorm(x, l.NormalizedShape, l.Weight, l.Bias, l.Eps)
}
