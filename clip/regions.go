package clip

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Regions maps pictures [B, 3, H, W] to embeddings of their regions [B, E, 1+rows·columns], which are not normalised; the first is that of the whole picture.
//
// Of a [ModifiedResNet] the attention pool without attention (DualCoOp): the mean of the positions and the positions, each with its position embedding, through the
// matrices of values and outputs. Of a [ViT] all tokens of the last block through ln_post and the projection. Autograd can differentiate the result.
func Regions(tower ImageTower, x *torch.Tensor) *torch.Tensor {
	if v, ok := tower.(*ViT); ok && v.AttnPool != nil {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.Regions", Msg: "the tower reads its tokens out by an attention pool, so single regions have no embeddings"})
	}
	tokens := tower.Details(x, Want{Tokens: true}).Tokens
	switch t := tower.(type) {
	case *ViT:
		return t.LNPost.Forward(tokens).Matmul(t.Proj).Transpose(1, 2)
	case *ModifiedResNet:
		p := t.AttnPool
		s := tokens.Shape()
		flat := tokens.Flatten(2, 3).Transpose(1, 2) // [B, rows·columns, F]
		all := torch.Cat([]*torch.Tensor{flat.MeanDim([]int{1}, true), flat}, 1).Add(ResizePositions(p.PositionalEmbedding, p.cfg, s[2], s[3]))
		return p.CProj.Forward(p.VProj.Forward(all)).Transpose(1, 2)
	}
	panic(&torch.Error{Kind: torch.KindValue, Op: "clip.Regions", Msg: fmt.Sprintf("no regions of a %T", tower)})
}

// ForwardTokens is ForwardText of token embeddings [B, L, T] in place of ids, without position embeddings, which it adds; at [B], int64, is the place of each row that is read
// out, its end token. Gradients reach the embeddings: so are prompts learned.
func (t *TextTower) ForwardTokens(tokens, at *torch.Tensor) *torch.Tensor {
	s := tokens.Shape()
	if len(s) != 3 || s[1] < 1 || s[1] > t.text.ContextLength || s[2] != t.text.Width || at.Numel() != s[0] {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.TextTower", Shapes: [][]int{s, at.Shape()}, Msg: fmt.Sprintf("want embeddings [B, L, %d] with L from 1 to %d, and [B] places", t.text.Width, t.text.ContextLength)})
	}
	h := tokens.Add(t.PositionalEmbedding.Slice(0, 0, s[1], 1))
	read := t.Transformer.forwardOne(h, !t.text.Bidirectional, readAt(at.Clone(), s[1], !t.text.Bidirectional)) // [B, T]
	return t.project(t.LNFinal.Forward(read))
}
