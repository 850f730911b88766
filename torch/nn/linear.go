package nn

import "github.com/gospml/gospml/torch"

// Linear is y = x·Weightᵀ + Bias (torch.nn.Linear).
type Linear struct {
	Weight *torch.Tensor // [OutFeatures, InFeatures]
	Bias   *torch.Tensor // [OutFeatures]; nil without bias

	InFeatures, OutFeatures int
}

// NewLinear draws Weight and Bias from U(±1/√inFeatures). Options: Bias, DType, Device, Generator, NoInit.
func NewLinear(inFeatures, outFeatures int, opts ...Option) *Linear {
	c := gather("nn.NewLinear", factory+"Bias ", opts)
	if inFeatures < 0 || outFeatures < 0 {
		refuse("nn.NewLinear", "in_features %d and out_features %d must not be negative", inFeatures, outFeatures)
	}
	l := &Linear{Weight: c.empty(outFeatures, inFeatures), InFeatures: inFeatures, OutFeatures: outFeatures}
	if c.bias {
		l.Bias = c.empty(outFeatures)
	}
	c.reset(l.Weight, l.Bias)
	trained(l.Weight, l.Bias)
	return l
}

// Forward maps [*, InFeatures] to [*, OutFeatures].
func (l *Linear) Forward(x *torch.Tensor) *torch.Tensor { return torch.Linear(x, l.Weight, l.Bias) }
