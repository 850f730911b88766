// Package latent holds heads with a Gaussian latent between what a network sees of a picture and its logits, as mutual
// and incremental label enhancement have them. It fills what their losses read of a batch.
package latent

import (
	"math"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Head makes logits, latents and enhanced labels.
type Head interface {
	// Fill puts them into a batch, computed of pooled features [B, D] or label-wise embeddings [B, C, D].
	Fill(in *torch.Tensor, b *loss.Batch)
	// Parameters are those that Fill computes with.
	Parameters() []*torch.Tensor
}

// samples is how many draws of the latent are averaged, as the released code of mutual label enhancement does.
const samples = 10

// Linear is a linear head with a Gaussian latent in its middle: for features x [B, D] every class c has the mean
// μ_c = P·x + q_c and the deviation σ_c = exp(clamp(S·x + r_c, -12, 12)/2), [d] each; z_c = v_c·(mean of 10 draws)
// + b_c. In evaluation the draws are the mean, so that the head is the linear map with the weight v_c·P and the bias
// v_c·q_c + b_c. With beta it also gives α_c and β_c, softplus of linear maps, and a draw from Beta(α_c, β_c) as
// the enhanced label.
//
// The papers have a label-wise decoder before the latents (--head decoder, Of): their numbers cannot be expected of
// this one.
type Linear struct {
	P, Q, S, R, V, B *torch.Tensor // [d, D], [C, d], [d, D], [C, d], [C, d], [C]
	A, AB            *torch.Tensor // [2C, D], [2C]: of the Beta distributions; nil without
	draws            Draws
}

// Draws make the random numbers of a head.
type Draws struct {
	Random *torch.Generator
	Margin float64 // enhanced labels keep this distance from 0 and 1: 0 where logarithms of them have an epsilon
	// Noise makes normal numbers of the deviation 1/√10, the mean of ten draws, on a device; nil: from Random.
	Noise func(on torch.Device, shape ...int) *torch.Tensor
}

// NewLinear draws a head from g.Random, which then also draws latents and labels: d is their width, beta adds the Beta
// distributions.
func NewLinear(classes, dim, d int, beta bool, g Draws) *Linear {
	draw := func(limit float64, shape ...int) *torch.Tensor {
		return torch.Empty(shape, torch.Float32).Uniform_(-limit, limit, g.Random).SetRequiresGrad(true)
	}
	zeros := func(shape ...int) *torch.Tensor { return torch.Zeros(shape, torch.Float32).SetRequiresGrad(true) }
	in, out := 1/math.Sqrt(float64(dim)), 1/math.Sqrt(float64(d))
	h := &Linear{
		P: draw(in, d, dim), Q: draw(1, classes, d), S: draw(in, d, dim), R: zeros(classes, d),
		V: draw(out, classes, d), B: zeros(classes), draws: g,
	}
	if beta {
		h.A, h.AB = draw(in, 2*classes, dim), zeros(2*classes)
	}
	return h
}

// Parameters are those of the head.
func (h *Linear) Parameters() []*torch.Tensor { return nn.Parameters(h) }

// Fill takes features x [B, D].
func (h *Linear) Fill(x *torch.Tensor, b *loss.Batch) {
	n, c, d := x.Size(0), h.Q.Size(0), h.Q.Size(1)
	b.Mean = x.Matmul(h.P.T()).Unsqueeze(1).Add(h.Q) // [B, C, d]
	s := x.Matmul(h.S.T()).Unsqueeze(1).Add(h.R)
	b.Std = s.Clamp(-12, 12).MulScalar(0.5).Exp()
	b.Logits = b.Mean.Add(b.Std.Mul(h.draws.noise(x.Device(), n, c, d))).Mul(h.V).SumDim([]int{2}, false).Add(h.B)
	if h.A != nil {
		ab := torch.Linear(x, h.A, h.AB).Softplus(1, 20).AddScalar(1e-3)
		b.Alpha, b.Beta = ab.Slice(1, 0, c, 1), ab.Slice(1, c, 2*c, 1)
		b.Soft = h.draws.labels(b.Alpha, b.Beta)
	}
}

// noise is the mean of samples normal draws, one draw with 1/√k of the deviation: the CPU's on every device.
func (d Draws) noise(on torch.Device, shape ...int) *torch.Tensor {
	if d.Noise != nil {
		return d.Noise(on, shape...)
	}
	return torch.Empty(shape, torch.Float32).Normal_(0, 1/math.Sqrt(samples), d.Random).Send(on)
}

// labels are drawn from Beta distributions, in float32 at least.
func (d Draws) labels(alpha, beta *torch.Tensor) *torch.Tensor {
	if alpha.DType() != torch.Float64 {
		alpha, beta = alpha.ToDType(torch.Float32), beta.ToDType(torch.Float32)
	}
	y := label.SampleBeta(alpha, beta, d.Random)
	if d.Margin == 0 {
		return y
	}
	return y.Clamp(d.Margin, 1-d.Margin)
}

// labelwise is the head of a network that has latents of its own.
type labelwise struct {
	net   model.LatentNetwork
	draws Draws
}

// Of is the head of a network with latents of its own, on its label-wise embeddings. g draws latents and labels.
func Of(n model.LatentNetwork, g Draws) Head { return labelwise{n, g} }

func (h labelwise) Parameters() []*torch.Tensor { return h.net.LatentParameters() }

func (h labelwise) Fill(f *torch.Tensor, b *loss.Batch) {
	l := h.net.Latents(f)
	b.Mean, b.Std = l.Mean, l.Std
	z := l.Mean.Add(l.Std.Mul(h.draws.noise(f.Device(), l.Mean.Shape()...)))
	b.Logits = h.net.Logits(f, z)
	if l.Alpha != nil {
		b.Alpha, b.Beta = l.Alpha, l.Beta
		b.Soft = h.draws.labels(l.Alpha, l.Beta)
	}
}

// Map is the head in evaluation: weight [C, D], bias [C].
func (h *Linear) Map() (weight, bias *torch.Tensor) {
	torch.NoGrad(func() {
		weight = h.V.Matmul(h.P)
		bias = h.V.Mul(h.Q).SumDim([]int{1}, false).Add(h.B)
	})
	return weight, bias
}
