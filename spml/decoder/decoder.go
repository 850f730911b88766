package decoder

import (
	"fmt"
	"sync"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Config are the sizes of a Decoder. A zero takes LAC's value, which stands in the comment.
type Config struct {
	InFeatures    int     // channels of the feature map
	Classes       int     // C
	Dim           int     // d, width of the tokens (InFeatures, without an input projection)
	NumHeads      int     // 4
	FeedForward   int     // 4·Dim
	EncoderLayers int     // 1; None means none
	DecoderLayers int     // 2
	Dropout       float64 // 0.1; None means none
	Projection    int     // width of the label-wise embeddings z (128); None leaves the projection head out
	DType         torch.DType
	Generator     *torch.Generator // of the initial values; nil = libtorch's default
}

// None stands for "none" where zero means the default.
const None = -1

func (c Config) filled() (Config, error) {
	set := func(v *int, d int) {
		switch *v {
		case 0:
			*v = d
		case None:
			*v = 0
		}
	}
	set(&c.Dim, c.InFeatures)
	set(&c.NumHeads, 4)
	set(&c.FeedForward, 4*c.Dim)
	set(&c.EncoderLayers, 1)
	set(&c.DecoderLayers, 2)
	set(&c.Projection, 128)
	switch c.Dropout {
	case 0:
		c.Dropout = 0.1
	case None:
		c.Dropout = 0
	}
	if c.DType == torch.DType(0) || !c.DType.IsFloat() {
		c.DType = torch.Float32
	}
	switch {
	case c.InFeatures < 1 || c.Classes < 1:
		return c, fmt.Errorf("decoder: %d input features and %d classes; want at least 1 of each", c.InFeatures, c.Classes)
	case c.Dim < 4 || c.Dim%4 != 0 || c.NumHeads < 1 || c.Dim%c.NumHeads != 0:
		return c, fmt.Errorf("decoder: width %d must be a multiple of 4 and of %d heads", c.Dim, c.NumHeads)
	case c.FeedForward < 1 || c.EncoderLayers < 0 || c.DecoderLayers < 1 || c.Projection < 0:
		return c, fmt.Errorf("decoder: feed-forward %d, %d + %d layers, projection %d: want positive sizes", c.FeedForward, c.EncoderLayers, c.DecoderLayers, c.Projection)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return c, fmt.Errorf("decoder: dropout %v is outside [0, 1)", c.Dropout)
	}
	return c, nil
}

// Decoder is LAC's label-wise embedding module over a feature map: tokens X with a sine position code P go through self-attention
// layers to a memory M; class queries Q look it up in layers of cross-attention alone (no self-attention among queries), from a target of zeros; each
// class's embedding f_c gives its logit and, through a projection head, its contrastive embedding z_c.
//
// Source: Xie et al. 2022 (LAC), section 3.2 and released code, which has 1 + 2 layers and no input projection.
type Decoder struct {
	InputProj  *nn.Conv2d // 1×1, where Dim differs from InFeatures
	Encoder    stack      // keys encoder.encoder.…, encoder.decoder.…
	QueryEmbed *nn.Embedding
	FC         *GroupLinear
	Proj       nn.Sequential // Linear, ReLU, Linear; empty without a projection head

	Config Config `torch:"-"`
	// Checkpointing forgets what lies inside the layers and computes it again during backward: less memory for a second forward pass of the decoder.
	Checkpointing bool `torch:"-"`

	positions sync.Map // [2]int{h, w} -> []float64
}

type stack struct {
	Encoder struct{ Layers []*EncoderLayer }
	Decoder struct {
		Layers []*DecoderLayer
		Norm   *nn.LayerNorm
	}
}

// New makes a decoder in training mode: matrices of the layers Xavier-uniform, attention biases zero, queries N(0, 1), the rest as
// torch.nn.Linear draws. Call it outside torch.Scope.
func New(c Config) (d *Decoder, err error) {
	c, err = c.filled()
	if err != nil {
		return nil, err
	}
	err = torch.Try(func() {
		d = &Decoder{Config: c, QueryEmbed: nn.NewEmbedding(c.Classes, c.Dim, c.options()...), FC: newGroupLinear(c)}
		if c.Dim != c.InFeatures {
			d.InputProj = nn.NewConv2d(c.InFeatures, c.Dim, 1, c.options()...)
		}
		for range c.EncoderLayers {
			d.Encoder.Encoder.Layers = append(d.Encoder.Encoder.Layers, newEncoderLayer(c))
		}
		for range c.DecoderLayers {
			d.Encoder.Decoder.Layers = append(d.Encoder.Decoder.Layers, newDecoderLayer(c))
		}
		d.Encoder.Decoder.Norm = norm(c)
		for _, p := range nn.Parameters(&d.Encoder) {
			if p.Dim() > 1 {
				nn.XavierUniform_(p, 1, c.Generator)
			}
		}
		if c.Projection > 0 {
			d.Proj = nn.Sequential{nn.NewLinear(c.Dim, c.Dim, c.options()...), nn.ReLU{}, nn.NewLinear(c.Dim, c.Projection, c.options()...)}
		}
	})
	return d, err
}

// options are those of a layer with drawn values.
func (c Config) options() []nn.Option {
	return []nn.Option{nn.DType(c.DType), nn.Generator(c.Generator)}
}

// Want says what Forward gives beside the logits.
type Want struct {
	Embeddings bool // z; needs the projection head
	Attention  bool // the maps of the last cross-attention
	// LabelwiseOnly leaves the logits out: another head stands on the embeddings f.
	LabelwiseOnly bool
}

// Output is what a Decoder gives. Where nothing is wanted beside the logits, attention is computed without its maps.
type Output struct {
	Logits    *torch.Tensor // [B, C]
	Labelwise *torch.Tensor // f, the label-wise embeddings [B, C, Dim]
	Z         *torch.Tensor // L2-normalised projections [B, C, Projection]; nil unless wanted
	Attention *torch.Tensor // mean over the heads of the last cross-attention [B, C, H·W]; nil unless wanted
}

// Forward looks at a feature map [B, InFeatures, H, W].
func (d *Decoder) Forward(x *torch.Tensor, w Want) Output {
	if d.InputProj != nil {
		x = d.InputProj.Forward(x)
	}
	tokens := func(t *torch.Tensor) *torch.Tensor { return t.Flatten(-2, -1).Transpose(-2, -1) }
	memory, position := tokens(x), tokens(d.position(x)) // [B, HW, d], [HW, d]
	for _, l := range d.Encoder.Encoder.Layers {
		memory = d.layer(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{l.Forward(in[0], in[1])} }, memory, position)[0]
	}
	keys := memory.Add(position)
	query := d.QueryEmbed.Weight
	target := torch.Zeros(torch.S(x.Size(0), d.Config.Classes, d.Config.Dim), x.DType(), x.Device())
	var out Output
	for i, l := range d.Encoder.Decoder.Layers {
		maps := w.Attention && i == len(d.Encoder.Decoder.Layers)-1
		y := d.layer(func(in []*torch.Tensor) []*torch.Tensor {
			t, a := l.forward(in[0], in[1], in[2], in[3], maps)
			if maps {
				return []*torch.Tensor{t, a}
			}
			return []*torch.Tensor{t}
		}, target, query, keys, memory)
		if target = y[0]; maps {
			out.Attention = y[1]
		}
	}
	out.Labelwise = d.Encoder.Decoder.Norm.Forward(target)
	if w.LabelwiseOnly {
		return out
	}
	out.Logits = d.FC.Forward(out.Labelwise)
	if w.Embeddings && len(d.Proj) > 0 {
		z := d.Proj.Forward(out.Labelwise)
		out.Z = z.Div(z.Square().SumDim([]int{-1}, true).Sqrt().ClampMin(1e-12))
	}
	return out
}

// layer runs a layer and lets go of what autograd does not keep of it.
func (d *Decoder) layer(f func(in []*torch.Tensor) []*torch.Tensor, in ...*torch.Tensor) (out []*torch.Tensor) {
	if d.Checkpointing {
		return torch.Checkpoint(f, in...)
	}
	torch.Scope(func(s *torch.Arena) {
		out = f(in)
		s.Keep(out...)
	})
	return out
}

// position is the code [d, H, W] for a map [B, d, H, W].
func (d *Decoder) position(x *torch.Tensor) *torch.Tensor {
	h, w := x.Size(2), x.Size(3)
	p, ok := d.positions.Load([2]int{h, w})
	if !ok {
		p = sinePosition(d.Config.Dim, h, w)
		d.positions.Store([2]int{h, w}, p)
	}
	return torch.FromSlice(p.([]float64), d.Config.Dim, h, w).ToDType(x.DType()).Send(x.Device())
}

// EncoderLayer is self-attention with positions added to queries and keys, and a feed-forward network, each with dropout, residual and a
// LayerNorm after it.
type EncoderLayer struct {
	SelfAttn *nn.MultiheadAttention
	feedForward
	Norm1, Norm2 *nn.LayerNorm
	Dropout1     *nn.Dropout
}

// DecoderLayer is cross-attention of class queries to the memory and a feed-forward network. Its norms are called 2 and 3 as in DETR, where the
// first belongs to the self-attention that LAC takes out.
type DecoderLayer struct {
	MultiheadAttn *nn.MultiheadAttention
	feedForward
	Norm2, Norm3 *nn.LayerNorm
	Dropout2     *nn.Dropout
}

type feedForward struct {
	Linear1  *nn.Linear
	Dropout  *nn.Dropout
	Linear2  *nn.Linear
	DropoutF *nn.Dropout `torch:"dropout_f"`
}

func newFeedForward(c Config) feedForward {
	return feedForward{nn.NewLinear(c.Dim, c.FeedForward, c.options()...), nn.NewDropout(c.Dropout), nn.NewLinear(c.FeedForward, c.Dim, c.options()...), nn.NewDropout(c.Dropout)}
}

func (f feedForward) forward(x *torch.Tensor) *torch.Tensor {
	return f.DropoutF.Forward(f.Linear2.Forward(f.Dropout.Forward(f.Linear1.Forward(x).Relu_())))
}

func newEncoderLayer(c Config) *EncoderLayer {
	return &EncoderLayer{SelfAttn: attention(c), feedForward: newFeedForward(c), Norm1: norm(c), Norm2: norm(c), Dropout1: nn.NewDropout(c.Dropout)}
}

func newDecoderLayer(c Config) *DecoderLayer {
	return &DecoderLayer{MultiheadAttn: attention(c), feedForward: newFeedForward(c), Norm2: norm(c), Norm3: norm(c), Dropout2: nn.NewDropout(c.Dropout)}
}

func attention(c Config) *nn.MultiheadAttention {
	return nn.NewMultiheadAttention(c.Dim, c.NumHeads, append(c.options(), nn.DropoutP(c.Dropout), nn.BatchFirst(true))...)
}

func norm(c Config) *nn.LayerNorm { return nn.NewLayerNorm([]int{c.Dim}, nn.DType(c.DType)) }

// Forward maps tokens x [B, N, d] with positions p [N, d] to tokens.
func (l *EncoderLayer) Forward(x, p *torch.Tensor) *torch.Tensor {
	qk := x.Add(p)
	a, _ := l.SelfAttn.Forward(qk, qk, x, nn.Attention{})
	x = l.Norm1.Forward(x.Add(l.Dropout1.Forward(a)))
	return l.Norm2.Forward(x.Add(l.feedForward.forward(x)))
}

// forward maps targets [B, C, d] with queries [C, d] over keys and values [B, N, d] to targets, and the attention [B, C, N] where it is wanted.
func (l *DecoderLayer) forward(t, query, keys, values *torch.Tensor, weights bool) (y, attention *torch.Tensor) {
	a, attention := l.MultiheadAttn.Forward(t.Add(query), keys, values, nn.Attention{NeedWeights: weights})
	t = l.Norm2.Forward(t.Add(l.Dropout2.Forward(a)))
	return l.Norm3.Forward(t.Add(l.feedForward.forward(t))), attention
}
