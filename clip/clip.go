package clip

import (
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// CLIP is both towers and the temperature, as a module of package nn: its state dict has OpenAI's keys. It can be trained. Forward may run on many
// goroutines while nobody writes the parameters.
type CLIP struct {
	Config Config `torch:"-"`

	TextTower                // no tensors where Config.Text is nil
	LogitScale *torch.Tensor // ln of the factor on cosines
	LogitBias  *torch.Tensor // nil but for Config.LogitBias
	Visual     ImageTower    // nil where Config.Vision is nil
}

// New makes a CLIP with OpenAI's initial values, drawn from torch's default generator.
func New(c Config) (*CLIP, error) { return build(c, true) }

func build(c Config, fill bool) (m *CLIP, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	err = torch.Try(func() {
		d := draw{fill: fill}
		if !fill {
			d.opts = []nn.Option{nn.NoInit()}
		}
		m = &CLIP{Config: c}
		if c.Vision != nil {
			if c.Vision.Stages != nil {
				m.Visual = newModifiedResNet(*c.Vision, c.EmbedDim, d)
			} else {
				m.Visual = newViT(*c.Vision, c.EmbedDim, d)
			}
		}
		if c.Text != nil {
			m.TextTower = newTextTower(*c.Text, c.EmbedDim, d)
		}
		m.LogitScale = torch.Scalar(float32(math.Log(1 / 0.07))).SetRequiresGrad(true)
		if c.LogitBias {
			m.LogitBias = torch.Scalar(float32(0)).SetRequiresGrad(true)
		}
	})
	return m, err
}

// Normalize divides rows by their Euclidean length.
func Normalize(x *torch.Tensor) *torch.Tensor {
	n := x.VectorNorm(2, []int{-1}, true)
	y := x.Div(n)
	n.Free()
	return y
}

// Logits are exp(logit_scale)·image·textᵀ (+ logit_bias), [B, N], of normalised embeddings [B, E] and [N, E].
func (m *CLIP) Logits(image, text *torch.Tensor) *torch.Tensor {
	y := image.Matmul(text.T()).Mul(m.LogitScale.Exp())
	if m.LogitBias != nil {
		y = y.Add(m.LogitBias)
	}
	return y
}

// ContrastiveLoss is CLIP's symmetric InfoNCE (Radford et al. 2021, figure 3) of a batch of pairs: the mean of the cross entropies over rows and columns
// of exp(logit_scale)·cosine. image and text are embeddings [B, E] as the towers give them.
func (m *CLIP) ContrastiveLoss(image, text *torch.Tensor) *torch.Tensor {
	logits := m.Logits(Normalize(image), Normalize(text))
	target := torch.Arange(0, logits.Size(0), 1, logits.Device())
	of := func(logits *torch.Tensor) *torch.Tensor {
		return logits.CrossEntropyLoss(target, nil, torch.ReductionMean)
	}
	return of(logits).Add(of(logits.T())).MulScalar(0.5)
}
