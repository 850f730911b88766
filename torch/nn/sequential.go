package nn

import "github.com/gospml/gospml/torch"

// Sequential runs layers in order (torch.nn.Sequential). Its keys are "0.", "1.", …; a layer is replaced by assigning
// to its index.
type Sequential []Layer

// Forward runs x through the layers; see Through.
func (s Sequential) Forward(x *torch.Tensor) *torch.Tensor { return Through(x, s...) }

// Through runs x through layers in order and frees each result once the next layer has used it, so that inference
// holds two of them at a time; autograd keeps what it needs by itself. x is not freed. Without layers it returns x.
func Through(x *torch.Tensor, layers ...Layer) *torch.Tensor {
	y := x
	for _, l := range layers {
		z := l.Forward(y)
		if y != x && z != y {
			y.Free()
		}
		y = z
	}
	return y
}
