package train

import (
	"math"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// latentSamples is how many draws of the latent are averaged, as the released code of mutual label enhancement does.
const latentSamples = 10

// latentHead is a linear head with a Gaussian latent in its middle: for features x [B, D] every class c has the mean
// μ_c = P·x + q_c and the deviation σ_c = exp(clamp(S·x + r_c, -12, 12)/2), [d] each; z_c = v_c·(mean of 10 draws) +
// b_c. In evaluation the draws are the mean, so that the head is the linear map with the weight v_c·P and the bias
// v_c·q_c + b_c. With beta it also gives α_c and β_c, softplus of linear maps, and a draw from Beta(α_c, β_c) as the
// enhanced label.
//
// The papers have a label-wise decoder before the latents (--head decoder, enhance): their numbers cannot be expected
// of
// this one.
type latentHead struct {
	P, Q, S, R, V, B *torch.Tensor // [d, D], [C, d], [d, D], [C, d], [C, d], [C]
	A, AB            *torch.Tensor // [2C, D], [2C]: of the Beta distributions; nil without
	random           *torch.Generator
}

func newLatentHead(classes, dim, d int, beta bool, g *torch.Generator) *latentHead {
	draw := func(limit float64, shape ...int) *torch.Tensor {
		return torch.Empty(shape, torch.Float32).Uniform_(-limit, limit, g).SetRequiresGrad(true)
	}
	in, out := 1/math.Sqrt(float64(dim)), 1/math.Sqrt(float64(d))
	h := &latentHead{
		P: draw(in, d, dim), Q: draw(1, classes, d), S: draw(in, d, dim), R: torch.Zeros(torch.S(classes, d), torch.Float32).SetRequiresGrad(true),
		V: draw(out, classes, d), B: torch.Zeros(torch.S(classes), torch.Float32).SetRequiresGrad(true), random: g,
	}
	if beta {
		h.A, h.AB = draw(in, 2*classes, dim), torch.Zeros(torch.S(2*classes), torch.Float32).SetRequiresGrad(true)
	}
	return h
}

// parameters are those of the head; none of a nil head.
func (h *latentHead) parameters() []*torch.Tensor {
	if h == nil {
		return nil
	}
	return nn.Parameters(h)
}

// forward fills logits, latents and enhanced labels of a batch of features [B, D].
func (h *latentHead) forward(x *torch.Tensor, b *loss.Batch) {
	n, c, d := x.Size(0), h.Q.Size(0), h.Q.Size(1)
	b.Mean = x.Matmul(h.P.T()).Unsqueeze(1).Add(h.Q) // [B, C, d]
	s := x.Matmul(h.S.T()).Unsqueeze(1).Add(h.R)
	b.Std = s.Clamp(-12, 12).MulScalar(0.5).Exp()
	b.Logits = b.Mean.Add(b.Std.Mul(latentNoise(h.random, x.Device(), n, c, d))).Mul(h.V).SumDim([]int{2}, false).Add(h.B)
	if h.A != nil {
		ab := torch.Linear(x, h.A, h.AB).Softplus(1, 20).AddScalar(1e-3)
		b.Alpha, b.Beta = ab.Slice(1, 0, c, 1), ab.Slice(1, c, 2*c, 1)
		b.Soft = enhancedLabels(b.Alpha, b.Beta, h.random)
	}
}

// latentNoise is the mean of latentSamples normal draws, one draw with 1/√k of the deviation: the CPU's on every
// device.
func latentNoise(g *torch.Generator, d torch.Device, shape ...int) *torch.Tensor {
	return torch.Empty(shape, torch.Float32).Normal_(0, 1/math.Sqrt(latentSamples), g).Send(d)
}

// enhancedLabels are drawn from Beta distributions; the logarithms of them stay finite.
func enhancedLabels(alpha, beta *torch.Tensor, g *torch.Generator) *torch.Tensor {
	const margin = 1e-4
	return label.SampleBeta(alpha, beta, g).Clamp(margin, 1-margin)
}

// enhance fills logits, latents and enhanced labels of a batch from label-wise embeddings f [B, C, D].
func enhance(h *model.Enhanced, f *torch.Tensor, g *torch.Generator, b *loss.Batch) {
	l := h.Latent.Forward(f)
	b.Mean, b.Std = l.Mean, l.Std
	z := l.Mean.Add(l.Std.Mul(latentNoise(g, f.Device(), l.Mean.Shape()...)))
	b.Logits = h.Logits(f, z)
	if l.Alpha != nil {
		b.Alpha, b.Beta = l.Alpha, l.Beta
		b.Soft = enhancedLabels(l.Alpha.ToDType(torch.Float32), l.Beta.ToDType(torch.Float32), g)
	}
}

// linear is the head in evaluation: weight [C, D], bias [C].
func (h *latentHead) linear() (weight, bias *torch.Tensor) {
	torch.NoGrad(func() {
		weight = h.V.Matmul(h.P)
		bias = h.V.Mul(h.Q).SumDim([]int{1}, false).Add(h.B)
	})
	return weight, bias
}
