package clip

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TextTower is the causal transformer of CLIP. Its keys have no prefix, as in OpenAI's files.
type TextTower struct {
	PositionalEmbedding *torch.Tensor // [context, T]
	TextProjection      *torch.Tensor // [T, E]; nil where Text.Projection says so
	TextLinear          *nn.Linear    `torch:"text_projection"` // of ProjectionBias
	Transformer         *Transformer
	TokenEmbedding      *nn.Embedding
	LNFinal             *nn.LayerNorm `torch:"ln_final"`

	text Text
}

func newTextTower(c Text, embed int, d draw) TextTower {
	width := float64(c.Width)
	t := TextTower{
		TokenEmbedding:      nn.NewEmbedding(c.VocabSize, c.Width, append(d.opts, nn.NoInit())...),
		PositionalEmbedding: d.normal(0.01, c.ContextLength, c.Width),
		Transformer:         d.transformer(c.Width, c.Heads, c.Layers, c.MLP, c.Act, c.Eps, c.LayerScale),
		LNFinal:             d.norm(c.Width, c.Eps),
		text:                c,
	}
	switch c.Projection {
	case ProjectionMatrix:
		t.TextProjection = d.normal(1/math.Sqrt(width), c.Width, embed)
	case ProjectionBias:
		t.TextLinear = nn.NewLinear(c.Width, embed, d.opts...)
		if d.fill {
			nn.Normal_(t.TextLinear.Weight, 0, 1/math.Sqrt(width), nil)
			nn.Zeros_(t.TextLinear.Bias)
		}
	}
	if d.fill {
		nn.Normal_(t.TokenEmbedding.Weight, 0, 0.02, nil)
		proj := 1 / math.Sqrt(width) / math.Sqrt(2*float64(c.Layers))
		for _, b := range t.Transformer.Resblocks {
			nn.Normal_(b.Attn.InProjWeight, 0, 1/math.Sqrt(width), nil)
			nn.Normal_(b.Attn.OutProj.Weight, 0, proj, nil)
			nn.Normal_(b.Mlp.CFc.Weight, 0, 1/math.Sqrt(2*width), nil)
			nn.Normal_(b.Mlp.CProj.Weight, 0, proj, nil)
		}
	}
	return t
}

// ForwardText maps token ids [B, L], int64 or int32, L at most the context length, to embeddings [B, E], which are not normalised. What follows the place that is
// read out (see Text.EOT) has no influence where attention is causal: shorter rows cost less and give the same.
func (t *TextTower) ForwardText(ids *torch.Tensor) *torch.Tensor {
	s := ids.Shape()
	if len(s) != 2 || s[1] < 1 || s[1] > t.text.ContextLength {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.TextTower", Shapes: [][]int{s}, Msg: fmt.Sprintf("want token ids [B, L] with L from 1 to %d", t.text.ContextLength)})
	}
	tokens := t.TokenEmbedding.Forward(ids)
	places := t.PositionalEmbedding.Slice(0, 0, s[1], 1)
	h := tokens.Add(places)
	free(tokens, places)
	var at *torch.Tensor
	switch {
	case t.text.Pool == PoolFirst:
		at = torch.Zeros(torch.S(s[0]), torch.Int64, ids.Device())
	case t.text.Pool == PoolLast:
		at = torch.Full(torch.S(s[0]), s[1]-1, torch.Int64, ids.Device())
	case t.text.EOT == 0:
		at = ids.Argmax(-1, false)
	default:
		is := ids.EqScalar(t.text.EOT)
		n := is.ToDType(torch.Int32)
		at = n.Argmax(-1, false)
		free(is, n)
	}
	r := readAt(at, s[1], !t.text.Bidirectional)
	read := t.Transformer.forwardOne(h, !t.text.Bidirectional, r) // [B, T]
	y := t.project(t.LNFinal.Forward(read))
	read.Free()
	r.free()
	return y
}

// project maps [B, T] to [B, E]. It frees x where it gives another tensor.
func (t *TextTower) project(x *torch.Tensor) *torch.Tensor {
	switch {
	case t.TextLinear != nil:
		return replace(x, t.TextLinear.Forward(x))
	case t.TextProjection != nil:
		return replace(x, x.Matmul(t.TextProjection))
	}
	return x
}

// SetTokens replaces the token embeddings by a table [vocabulary, width] of any length. The caller adjusts Config.
func (t *TextTower) SetTokens(table *torch.Tensor) {
	t.TokenEmbedding.Weight.SetData(table.Contiguous())
	t.TokenEmbedding.NumEmbeddings = table.Size(0)
	t.text.VocabSize = table.Size(0)
}
