package clip

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ImageTower is a *ViT or a *ModifiedResNet.
type ImageTower interface {
	// Forward maps pictures [B, 3, H, W] to embeddings [B, embed_dim], which are not normalised.
	Forward(x *torch.Tensor) *torch.Tensor
	// Details is Forward with what lies inside.
	Details(x *torch.Tensor, want Want) Details
}

// Want says what Details is to give beside the embeddings.
type Want struct{ Tokens, Attention bool }

// Details are an image tower's results.
type Details struct {
	Embeddings *torch.Tensor // [B, embed_dim]
	// Tokens are the outputs of the last block before ln_post, the class token first, [B, 1+rows·columns, width]; of a ModifiedResNet the map that enters the
	// attention pool, [B, 32·width, rows, columns].
	Tokens *torch.Tensor
	// Attention holds the weights of each block, [B, heads, L, L]; of a ModifiedResNet those of the attention pool's one query, [B, heads, 1, L].
	Attention []*torch.Tensor
}

// ViT is the vision transformer of CLIP (Radford et al. 2021, arXiv:2103.00020, section 2.4; Dosovitskiy et al. 2021 with a norm before the blocks).
type ViT struct {
	ClassEmbedding      *torch.Tensor // [D]
	PositionalEmbedding *torch.Tensor // [1+rows·columns, D], the class token's first
	Proj                *torch.Tensor // [D, E]; [E, E] behind an attention pool
	Conv1               *nn.Conv2d    // [D, 3, P, P], stride P
	LNPre               *nn.LayerNorm `torch:"ln_pre"` // nil where the configuration has none
	Transformer         *Transformer
	AttnPool            *AttentionalPooler // nil but for Vision.Pooler, as the next
	AttnPoolContrastive *AttentionalPooler
	LNPost              *nn.LayerNorm `torch:"ln_post"`

	cfg     Vision
	patches *packedLinear // Conv1 of a frozen tower
}

func newViT(c Vision, embed int, d draw) *ViT {
	rows, columns := c.Grid()
	std := 1 / math.Sqrt(float64(c.Width))
	v := &ViT{
		Conv1:               nn.NewConv2d(3, c.Width, c.PatchSize, append(d.opts, nn.Stride(c.PatchSize), nn.Bias(false))...),
		ClassEmbedding:      d.normal(std, c.Width),
		PositionalEmbedding: d.normal(std, 1+rows*columns, c.Width),
		Transformer:         d.transformer(c.Width, c.Heads, c.Layers, c.MLP, c.Act, c.Eps, c.LayerScale),
		cfg:                 c,
	}
	pooled := c.Width
	if p := c.Pooler; p != nil {
		pooled = embed
		v.AttnPool = d.pooler(embed, c.Width, p.Heads, p.Queries)
		if p.Contrastive != PoolerSingle {
			v.AttnPoolContrastive = d.pooler(embed, c.Width, p.Heads, 1)
		}
	}
	v.LNPost, v.Proj = d.norm(pooled, c.Eps), d.normal(std, pooled, embed)
	if !c.NoLNPre {
		v.LNPre = d.norm(c.Width, c.Eps)
	}
	return v
}

// Forward maps [B, 3, H, W] to [B, E]. Other sizes than the configuration's resize the position embeddings.
func (v *ViT) Forward(x *torch.Tensor) *torch.Tensor { return v.Details(x, Want{}).Embeddings }

// Details is Forward with tokens and attention maps.
func (v *ViT) Details(x *torch.Tensor, want Want) Details {
	h := v.embed(x)
	var out Details
	var pooled *torch.Tensor // [B, D], normed
	if !want.Tokens && !want.Attention && !v.cfg.MeanPool && v.AttnPool == nil {
		first := v.Transformer.forwardOne(h, false, reader{})
		pooled = v.LNPost.Forward(first)
		first.Free()
	} else {
		var maps *[]*torch.Tensor
		if want.Attention {
			maps = &out.Attention
		}
		h = v.Transformer.forward(h, false, maps)
		pooled = v.pool(h)
		if want.Tokens {
			out.Tokens = h
		} else {
			h.Free()
		}
	}
	out.Embeddings = pooled.Matmul(v.Proj)
	pooled.Free()
	return out
}

// pool maps the blocks' output [B, 1+rows·columns, D] to [B, D], normed. It frees nothing of the caller's.
func (v *ViT) pool(h *torch.Tensor) *torch.Tensor {
	if v.AttnPool != nil {
		return v.attentionPool(h)
	}
	if !v.cfg.MeanPool {
		first := h.Select(1, 0)
		y := v.LNPost.Forward(first)
		first.Free()
		return y
	}
	patches := h.Slice(1, 1, h.Size(1), 1)
	if v.cfg.NormAfterPool {
		mean := patches.MeanDim([]int{1}, false)
		y := v.LNPost.Forward(mean)
		free(patches, mean)
		return y
	}
	n := v.LNPost.Forward(patches)
	y := n.MeanDim([]int{1}, false)
	free(patches, n)
	return y
}

// embed gives the input of the first block, [B, 1+rows·columns, D].
func (v *ViT) embed(x *torch.Tensor) *torch.Tensor {
	rows, columns := v.grid(x)
	var flat *torch.Tensor // [B, rows·columns, D]
	if v.patches != nil {
		flat = v.patches.forward(cutPatches(x, v.cfg.PatchSize, rows, columns))
	} else {
		p := v.Conv1.Forward(x) // [B, D, rows, columns]
		f := p.Flatten(2, 3)
		flat = f.Transpose(1, 2)
		free(p, f)
	}
	class := v.ClassEmbedding.Expand(flat.Size(0), 1, flat.Size(2))
	joined := torch.Cat([]*torch.Tensor{class, flat}, 1)
	positions := ResizePositions(v.PositionalEmbedding, v.cfg, rows, columns)
	h := joined.Add(positions)
	if v.LNPre != nil {
		h = replace(h, v.LNPre.Forward(h))
	}
	free(flat, class, joined)
	if positions != v.PositionalEmbedding {
		positions.Free()
	}
	return h
}

func (v *ViT) grid(x *torch.Tensor) (rows, columns int) {
	s := x.Shape()
	p := v.cfg.PatchSize
	if len(s) != 4 || s[1] != 3 || s[2] < p || s[3] < p {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.ViT", Shapes: [][]int{s}, Msg: fmt.Sprintf("want pictures [B, 3, H, W] of at least %d×%d", p, p)})
	}
	return s[2] / p, s[3] / p
}

// ResizePositions gives the position embeddings of a grid: the table itself where the grid is the configuration's, else the table with the
// class token's row kept and the others resized by c.Positions, bicubic without aligned corners. table is [1+rows·columns of c.Grid, D].
func ResizePositions(table *torch.Tensor, c Vision, rows, columns int) *torch.Tensor {
	oldRows, oldColumns := c.Grid()
	same := rows == oldRows && columns == oldColumns
	if same || c.Positions == PositionsOpenCLIP && rows*columns == oldRows*oldColumns { // open_clip compares the number of tokens only
		return table
	}
	d := table.Size(1)
	class := table.Slice(0, 0, 1, 1)
	grid := table.Slice(0, 1, 1+oldRows*oldColumns, 1).T().Reshape(1, d, oldRows, oldColumns)
	if grid.DType() != torch.Float64 {
		grid = grid.ToDType(torch.Float32)
	}
	antialias := c.Positions == PositionsOpenCLIP || c.Positions == PositionsAuto && (rows < oldRows || columns < oldColumns)
	if antialias {
		grid = grid.UpsampleBicubic2dAA([]int{rows, columns}, false)
	} else {
		grid = grid.UpsampleBicubic2d([]int{rows, columns}, false)
	}
	return torch.Cat([]*torch.Tensor{class, grid.Reshape(d, rows*columns).T().ToDType(table.DType())}, 0)
}
