package nn

import "github.com/gospml/gospml/torch"

// Sequential runs layers in order (torch.nn.Sequential). Its keys are "0.", "1.", …; a layer is replaced by assigning
// to its index.
type Sequential []Layer

// Forward runs x through the layers; see Through.
func (s Sequential) Forward(x *torch.Tensor) *torch.Tensor { return Through(x, s...) }

// Through runs x through layers in order and frees each result once the next layer has used it, so that inference
// holds two of them at a time; autograd keeps what it needs by itself. x is not freed. Without layers it returns x. A convolution before a
// constant normalisation takes it in, as ConvNorm does.
func Through(x *torch.Tensor, layers ...Layer) *torch.Tensor {
	y := x
	for i := 0; i < len(layers); i++ {
		var z *torch.Tensor
		if conv, norm := constantNorm(layers[i:]); norm != nil {
			z = ConvNorm(y, conv, norm)
			i++
		} else {
			z = layers[i].Forward(y)
		}
		if y != x && z != y {
			y.Free()
		}
		y = z
	}
	return y
}

// constantNorm gives a convolution at the start of layers and the constant normalisation behind it, nil otherwise.
func constantNorm(layers []Layer) (*Conv2d, *BatchNorm2d) {
	if len(layers) > 1 {
		if conv, ok := layers[0].(*Conv2d); ok {
			if norm, ok := layers[1].(*BatchNorm2d); ok && norm.constant() {
				return conv, norm
			}
		}
	}
	return nil, nil
}
