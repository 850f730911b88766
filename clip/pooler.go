package clip

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// AttentionalPooler reads tokens out by trained queries (Yu et al. 2022, arXiv:2205.01917, section 3.2, as open_clip has it).
type AttentionalPooler struct {
	Query *torch.Tensor // [queries, E]
	Attn  *nn.MultiheadAttention
	LNQ   *nn.LayerNorm `torch:"ln_q"`
	LNK   *nn.LayerNorm `torch:"ln_k"`
}

// pooler has open_clip's epsilon, which the configuration does not change.
func (d draw) pooler(embed, width, heads, queries int) *AttentionalPooler {
	opts := append(append([]nn.Option{}, d.opts...), nn.KDim(width), nn.VDim(width), nn.BatchFirst(true))
	return &AttentionalPooler{Query: d.normal(1, queries, embed), Attn: nn.NewMultiheadAttention(embed, heads, opts...), LNQ: d.norm(embed, 1e-5), LNK: d.norm(width, 1e-5)}
}

// forward maps [B, L, D] to [B, queries, E].
func (p *AttentionalPooler) forward(x *torch.Tensor) *torch.Tensor {
	k, q := p.LNK.Forward(x), p.LNQ.Forward(p.Query)
	all := q.Expand(x.Size(0), q.Size(0), q.Size(1))
	y, _ := p.Attn.Forward(all, k, k, nn.Attention{})
	free(k, q, all)
	return y
}

// attentionPool maps the blocks' output [B, L, D] to [B, E], normed.
func (v *ViT) attentionPool(h *torch.Tensor) *torch.Tensor {
	if v.AttnPoolContrastive != nil {
		n := v.LNPost.Forward(h)
		read := n
		if v.cfg.Pooler.Contrastive == PoolerCascade {
			read = v.AttnPool.forward(n)
		}
		one := v.AttnPoolContrastive.forward(read)
		if read != n {
			read.Free()
		}
		y := one.Squeeze(1)
		free(n, one)
		return y
	}
	p := v.AttnPool.forward(h)
	n := v.LNPost.Forward(p)
	var y *torch.Tensor
	if v.cfg.MeanPool {
		rest := n.Slice(1, 1, n.Size(1), 1)
		y = rest.MeanDim([]int{1}, false)
		rest.Free()
	} else {
		first := n.Select(1, 0)
		y = first.Contiguous()
		first.Free()
	}
	free(p, n)
	return y
}
