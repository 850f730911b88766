package decoder

import (
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// GroupLinear has one row of weights for each class: logit_c = ⟨W_c, f_c⟩ + b_c.
type GroupLinear struct {
	W *torch.Tensor `torch:"W"` // [1, C, D]
	B *torch.Tensor // [1, C]
}

// newGroupLinear draws both from U(±1/√D).
func newGroupLinear(c Config) *GroupLinear {
	bound := 1 / math.Sqrt(float64(c.Dim))
	draw := func(shape ...int) *torch.Tensor {
		return nn.Uniform_(torch.Empty(shape, c.DType), -bound, bound, c.Generator).SetRequiresGrad(true)
	}
	return &GroupLinear{W: draw(1, c.Classes, c.Dim), B: draw(1, c.Classes)}
}

// Forward maps label-wise embeddings [B, C, D] to logits [B, C].
func (g *GroupLinear) Forward(f *torch.Tensor) *torch.Tensor {
	return f.Mul(g.W).SumDim([]int{-1}, false).Add(g.B)
}
