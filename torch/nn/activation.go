package nn

import "github.com/gospml/gospml/torch"

// ReLU is max(0, x) (torch.nn.ReLU). Inplace overwrites the input, which saves memory where nothing else reads it.
type ReLU struct{ Inplace bool }

// Forward keeps the shape.
func (r ReLU) Forward(x *torch.Tensor) *torch.Tensor {
	if r.Inplace {
		return x.Relu_()
	}
	return x.Relu()
}

// ReLU6 is min(max(0, x), 6) (torch.nn.ReLU6). Inplace overwrites the input.
type ReLU6 struct{ Inplace bool }

// Forward keeps the shape.
func (r ReLU6) Forward(x *torch.Tensor) *torch.Tensor {
	switch {
	case !r.Inplace:
		return x.Hardtanh(0.0, 6.0)
	case !torch.GradEnabled() || !x.RequiresGrad():
		return x.Hardtanh_(0.0, 6.0)
	}
	torch.Call("gospml::relu6_", x) // Hardtanh_ would keep a copy of x for backward
	return x
}

// GELU is x·Φ(x) (torch.nn.GELU). Approximate "tanh" takes Hendrycks and Gimpel's formula; empty or "none" the exact one.
type GELU struct{ Approximate string }

// Forward keeps the shape.
func (g GELU) Forward(x *torch.Tensor) *torch.Tensor {
	if g.Approximate == "" {
		return x.Gelu("none")
	}
	return x.Gelu(g.Approximate)
}

// QuickGELU is x·σ(1.702·x), the activation of OpenAI's CLIP.
type QuickGELU struct{}

// Forward keeps the shape.
func (QuickGELU) Forward(x *torch.Tensor) *torch.Tensor {
	s := x.MulScalar(1.702)
	g := s.Sigmoid()
	s.Free()
	y := x.Mul(g)
	g.Free()
	return y
}

// SiLU is x·σ(x) (torch.nn.SiLU).
type SiLU struct{}

// Forward keeps the shape.
func (SiLU) Forward(x *torch.Tensor) *torch.Tensor { return x.Silu() }

// LeakyReLU is x where positive, NegativeSlope·x elsewhere (torch.nn.LeakyReLU, whose slope is 0.01).
type LeakyReLU struct{ NegativeSlope float64 }

// Forward keeps the shape.
func (l LeakyReLU) Forward(x *torch.Tensor) *torch.Tensor { return x.LeakyRelu(l.NegativeSlope) }

// ELU is x where positive, Alpha·(eˣ - 1) elsewhere (torch.nn.ELU, whose alpha is 1).
type ELU struct{ Alpha float64 }

// Forward keeps the shape.
func (e ELU) Forward(x *torch.Tensor) *torch.Tensor { return x.Elu(e.Alpha) }

// PReLU is x where positive, a learned multiple of it elsewhere (torch.nn.PReLU).
type PReLU struct {
	Weight *torch.Tensor // [1], or one for each channel
}

// NewPReLU starts with 0.25 for n channels, or for all with n = 1. Options: DType, Device, Generator, NoInit.
func NewPReLU(n int, opts ...Option) *PReLU {
	c := gather("nn.NewPReLU", factory, opts)
	p := &PReLU{c.empty(n)}
	Constant_(p.Weight, 0.25)
	trained(p.Weight)
	return p
}

// Forward keeps the shape [B, C, *].
func (p *PReLU) Forward(x *torch.Tensor) *torch.Tensor { return x.Prelu(p.Weight) }

// Sigmoid is 1/(1+e⁻ˣ) (torch.nn.Sigmoid).
type Sigmoid struct{}

// Forward keeps the shape.
func (Sigmoid) Forward(x *torch.Tensor) *torch.Tensor { return x.Sigmoid() }

// Tanh is the hyperbolic tangent (torch.nn.Tanh).
type Tanh struct{}

// Forward keeps the shape.
func (Tanh) Forward(x *torch.Tensor) *torch.Tensor { return x.Tanh() }

// Softmax normalises along Dim (torch.nn.Softmax).
type Softmax struct{ Dim int }

// Forward keeps the shape.
func (s Softmax) Forward(x *torch.Tensor) *torch.Tensor { return x.Softmax(s.Dim) }

// Softplus is log(1+eˣ) (torch.nn.Softplus with its defaults).
type Softplus struct{}

// Forward keeps the shape.
func (Softplus) Forward(x *torch.Tensor) *torch.Tensor { return x.Softplus(1, 20) }

// Mish is x·tanh(softplus(x)) (torch.nn.Mish).
type Mish struct{}

// Forward keeps the shape.
func (Mish) Forward(x *torch.Tensor) *torch.Tensor { return x.Mish() }

// Hardswish is x·relu6(x + 3)/6 (torch.nn.Hardswish).
type Hardswish struct{}

// Forward keeps the shape.
func (Hardswish) Forward(x *torch.Tensor) *torch.Tensor { return x.Hardswish() }

// Hardsigmoid is relu6(x + 3)/6 (torch.nn.Hardsigmoid).
type Hardsigmoid struct{}

// Forward keeps the shape.
func (Hardsigmoid) Forward(x *torch.Tensor) *torch.Tensor { return x.Hardsigmoid() }
