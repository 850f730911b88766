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
	if r.Inplace {
		return x.Hardtanh_(0.0, 6.0)
	}
	return x.Hardtanh(0.0, 6.0)
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
