package decoder

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Latent gives each label-wise embedding f_c a Gaussian in a latent space, as mutual label enhancement and the image
// form of label enhancement have it on LAC's decoder: (μ_c, s_c) = MLP(f_c), [d] each.
//
// Without Beta distributions (MIME) σ_c = exp(clamp(s_c/2, -6, 6)) and the classifier judges the latent. With them
// (SMILE) σ_c = softplus(s_c), α_c and β_c are softplus of linear maps of f_c, plus 1e-6, and the classifier judges
// f_c
// itself.
//
// Source: palm-biaoliu/mime @ 06e15de, lib_lagc/models/LEModel.py.
type Latent struct {
	Proj                        nn.Sequential // Linear, ReLU, Linear
	DEncoderAlpha, DEncoderBeta *GroupLinear  // nil without Beta distributions

	width int
}

// Latents are the distributions of a batch.
type Latents struct {
	Mean, Std   *torch.Tensor // [B, C, d]
	Alpha, Beta *torch.Tensor // [B, C]; nil without Beta distributions
}

// NewLatent makes the latents of a decoder's embeddings, width d each, and gives the decoder the classifier that goes
// with them. Call it outside torch.Scope.
func NewLatent(d *Decoder, width int, beta bool) (l *Latent, err error) {
	err = torch.Try(func() {
		c := d.Config
		l = &Latent{Proj: nn.Sequential{nn.NewLinear(c.Dim, c.Dim, c.options()...), nn.ReLU{}, nn.NewLinear(c.Dim, 2*width,
			c.options()...)}, width: width}
		if beta {
			l.DEncoderAlpha, l.DEncoderBeta = newGroupLinear(c), newGroupLinear(c)
			return
		}
		c.Dim = width
		d.FC = newGroupLinear(c)
	})
	return l, err
}

// Forward gives the distributions of embeddings f [B, C, D].
func (l *Latent) Forward(f *torch.Tensor) Latents {
	s := l.Proj.Forward(f)
	deviation := s.Narrow(-1, l.width, l.width)
	out := Latents{Mean: s.Narrow(-1, 0, l.width)}
	if l.DEncoderAlpha == nil {
		out.Std = deviation.MulScalar(0.5).Clamp(-6, 6).Exp()
		return out
	}
	const least = 1e-6
	out.Std = deviation.Softplus(1, 20)
	out.Alpha = l.DEncoderAlpha.Forward(f).Softplus(1, 20).AddScalar(least)
	out.Beta = l.DEncoderBeta.Forward(f).Softplus(1, 20).AddScalar(least)
	return out
}

// Judged is what the classifier of the decoder judges: the latent z [B, C, d], or the embeddings f.
func (l *Latent) Judged(f, z *torch.Tensor) *torch.Tensor {
	if l.DEncoderAlpha == nil {
		return z
	}
	return f
}
