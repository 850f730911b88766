package decoder

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// MLConfig are the sizes of an MLDecoder. A zero takes the value of the comment.
type MLConfig struct {
	InFeatures  int // F, width of the tokens
	Classes     int // C
	Groups      int // G, number of queries: min(100, C)
	Dim         int // 768
	NumHeads    int // 8
	FeedForward int // 2048
	Dropout     float64
	DType       torch.DType
	Generator   *torch.Generator // of the initial values; nil = libtorch's default
}

// MLDecoder is a small alternative to Decoder: G fixed random queries look a projected feature map up in one layer of cross-attention, and each query's
// output answers for a group of ⌈C/G⌉ classes.
//
// Source: Ridnik et al. 2023 (ML-Decoder), released code; the queries stay at their random initial values.
type MLDecoder struct {
	EmbedStandart        *nn.Linear // the released model's spelling
	QueryEmbed           *fixedQueries
	Layers               []*MLLayer
	DuplicatePooling     *torch.Tensor // [G, Dim, factor]
	DuplicatePoolingBias *torch.Tensor // [C]

	Config MLConfig `torch:"-"`
}

// fixedQueries are queries that are saved, but not trained.
type fixedQueries struct {
	Weight *torch.Tensor `torch:"weight,buffer"` // [G, Dim]
}

// MLLayer is MLDecoder's layer: a norm of the doubled queries, cross-attention, a feed-forward network.
type MLLayer struct {
	Norm1         *nn.LayerNorm
	Dropout1      *nn.Dropout
	MultiheadAttn *nn.MultiheadAttention
	Norm2         *nn.LayerNorm
	Dropout2      *nn.Dropout
	feedForward
	Norm3 *nn.LayerNorm
}

// NewML makes an ML-Decoder in training mode. Call it outside torch.Scope.
func NewML(c MLConfig) (d *MLDecoder, err error) {
	or := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	or(&c.Groups, min(100, c.Classes))
	or(&c.Dim, 768)
	or(&c.NumHeads, 8)
	or(&c.FeedForward, 2048)
	if !c.DType.IsFloat() {
		c.DType = torch.Float32
	}
	if c.InFeatures < 1 || c.Classes < 1 || c.Groups < 1 || c.Groups > c.Classes || c.Dim < 1 || c.NumHeads < 1 || c.Dim%c.NumHeads != 0 || c.FeedForward < 1 {
		return nil, fmt.Errorf("decoder: ML-Decoder wants positive sizes, at most as many groups as classes, and a width that its heads divide: %+v", c)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		return nil, fmt.Errorf("decoder: dropout %v is outside [0, 1)", c.Dropout)
	}
	err = torch.Try(func() {
		block := Config{Dim: c.Dim, NumHeads: c.NumHeads, FeedForward: c.FeedForward, Dropout: c.Dropout, DType: c.DType, Generator: c.Generator}
		d = &MLDecoder{
			Config:        c,
			EmbedStandart: nn.NewLinear(c.InFeatures, c.Dim, block.options()...),
			QueryEmbed:    &fixedQueries{nn.Normal_(torch.Empty(torch.S(c.Groups, c.Dim), c.DType), 0, 1, c.Generator)},
			Layers: []*MLLayer{{
				Norm1: norm(block), Dropout1: nn.NewDropout(c.Dropout), MultiheadAttn: attention(block), Norm2: norm(block),
				Dropout2: nn.NewDropout(c.Dropout), feedForward: newFeedForward(block), Norm3: norm(block),
			}},
			DuplicatePooling:     torch.Empty(torch.S(c.Groups, c.Dim, (c.Classes+c.Groups-1)/c.Groups), c.DType),
			DuplicatePoolingBias: torch.Zeros(torch.S(c.Classes), c.DType).SetRequiresGrad(true),
		}
		nn.XavierNormal_(d.DuplicatePooling, 1, c.Generator)
		d.DuplicatePooling.SetRequiresGrad(true)
	})
	return d, err
}

// Forward maps a feature map [B, InFeatures, H, W], or tokens [B, N, InFeatures], to logits [B, C].
func (d *MLDecoder) Forward(x *torch.Tensor) *torch.Tensor {
	if x.Dim() == 4 {
		x = x.Flatten(2, -1).Transpose(1, 2)
	}
	memory := d.EmbedStandart.Forward(x).Relu()
	t := d.QueryEmbed.Weight.Unsqueeze(0).Expand(x.Size(0), d.Config.Groups, d.Config.Dim)
	for _, l := range d.Layers {
		t = l.Norm1.Forward(t.Add(l.Dropout1.Forward(t)))
		a, _ := l.MultiheadAttn.Forward(t, memory, memory, nn.Attention{})
		t = l.Norm2.Forward(t.Add(l.Dropout2.Forward(a)))
		t = l.Norm3.Forward(t.Add(l.feedForward.forward(t)))
	}
	// [B, G, 1, D] × [G, D, f] -> [B, G, f] -> [B, G·f], of which the first C count.
	y := t.Unsqueeze(2).Matmul(d.DuplicatePooling).Flatten(1, -1)
	return y.Narrow(1, 0, d.Config.Classes).Add(d.DuplicatePoolingBias)
}
