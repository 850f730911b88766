package clip

import (
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Attention is multi-head self-attention with one matrix for queries, keys and values (torch.nn.MultiheadAttention's layout and keys).
type Attention struct {
	InProjWeight *torch.Tensor // [3·width, width]
	InProjBias   *torch.Tensor // [3·width]
	OutProj      *nn.Linear

	Heads int
}

// heads cuts x [B, L, n·D] into n tensors [B, heads, L, D/heads].
func cutHeads(x *torch.Tensor, n, heads int) []*torch.Tensor {
	s := x.Shape()
	cut := x.View(s[0], s[1], n, heads, s[2]/n/heads)
	turned := cut.Permute(2, 0, 3, 1, 4)
	parts := turned.Unbind(0)
	free(cut, turned)
	return parts
}

// joinHeads is the reverse of cutHeads for one tensor: [B, heads, L, D/heads] to [B, L, D].
func joinHeads(x *torch.Tensor) *torch.Tensor {
	s := x.Shape()
	turned := x.Transpose(1, 2)
	joined := turned.Reshape(s[0], s[2], s[1]*s[3])
	turned.Free()
	return joined
}

// attend is softmax(q·kᵀ/√dh)·v; with maps it also gives the weights.
func attend(q, k, v *torch.Tensor, causal, maps bool) (o, weights *torch.Tensor) {
	if maps {
		weights = attentionMap(q, k, causal)
		return weights.Matmul(v), weights
	}
	return torch.ScaledDotProductAttention(q, k, v, nil, 0, causal), nil
}

// forward maps x [B, L, D]; causal hides the later tokens. With maps it also gives the weights of all heads, [B, heads, L, L].
func (a *Attention) forward(x *torch.Tensor, causal, maps bool) (y, weights *torch.Tensor) {
	qkv := torch.Linear(x, a.InProjWeight, a.InProjBias)
	p := cutHeads(qkv, 3, a.Heads)
	o, weights := attend(p[0], p[1], p[2], causal, maps)
	joined := joinHeads(o)
	y = a.OutProj.Forward(joined)
	free(p...)
	free(qkv, o, joined)
	return y, weights
}

// forwardOne is forward of one place a row only: one [B, 1, D] asks, x [B, L, D] answers where mask (nil: everywhere) lets it.
func (a *Attention) forwardOne(one, x, mask *torch.Tensor) *torch.Tensor {
	d := x.Size(2)
	qw, qb := a.InProjWeight.Slice(0, 0, d, 1), a.InProjBias.Slice(0, 0, d, 1)
	kvw, kvb := a.InProjWeight.Slice(0, d, 3*d, 1), a.InProjBias.Slice(0, d, 3*d, 1)
	q, kv := torch.Linear(one, qw, qb), torch.Linear(x, kvw, kvb)
	qs, p := cutHeads(q, 1, a.Heads), cutHeads(kv, 2, a.Heads)
	o := torch.ScaledDotProductAttention(qs[0], p[0], p[1], mask, 0, false)
	joined := joinHeads(o)
	y := a.OutProj.Forward(joined)
	free(qw, qb, kvw, kvb, q, kv, qs[0], p[0], p[1], o, joined)
	return y
}

// attentionMap is softmax(q·kᵀ/√dh), dh the width of a head.
func attentionMap(q, k *torch.Tensor, causal bool) *torch.Tensor {
	kt := k.Transpose(-2, -1)
	s := q.Matmul(kt)
	scaled := s.MulScalar(1 / math.Sqrt(float64(q.Size(-1))))
	free(s, kt)
	if causal {
		l := scaled.Size(-1)
		future := torch.Ones(torch.S(l, l), torch.Bool, scaled.Device()).Triu(1)
		masked := scaled.MaskedFill(future, math.Inf(-1))
		free(future, scaled)
		scaled = masked
	}
	w := scaled.Softmax(-1)
	scaled.Free()
	return w
}

// MLP is the block's second half: c_proj(act(c_fc(x))).
type MLP struct {
	CFc   *nn.Linear
	CProj *nn.Linear

	act Act
}

func (m *MLP) forward(x *torch.Tensor) *torch.Tensor {
	h := m.CFc.Forward(x)
	g := m.act.forward(h)
	h.Free()
	y := m.CProj.Forward(g)
	g.Free()
	return y
}

func (a Act) forward(x *torch.Tensor) *torch.Tensor {
	switch a {
	case GELU:
		return x.Gelu("none")
	case GELUTanh:
		return x.Gelu("tanh")
	case silu:
		return x.Silu()
	}
	return nn.QuickGELU{}.Forward(x)
}

// LayerScale multiplies a branch by gains (Touvron et al. 2021, arXiv:2103.17239). A nil one is the identity.
type LayerScale struct {
	Gamma *torch.Tensor // [D]
}

// forward frees x where it gives another tensor.
func (l *LayerScale) forward(x *torch.Tensor) *torch.Tensor {
	if l == nil {
		return x
	}
	return replace(x, x.Mul(l.Gamma))
}

// foldInto makes the gains part of the linear layer before them, for inference.
func (l *LayerScale) foldInto(to *nn.Linear) {
	if l == nil {
		return
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			to.Weight.SetData(to.Weight.Mul(l.Gamma.View(-1, 1)))
			to.Bias.SetData(to.Bias.Mul(l.Gamma))
		})
	})
	l.Gamma.Free()
}

// foldScales makes a block one without LayerScale.
func (b *Block) foldScales() {
	b.LS1.foldInto(b.Attn.OutProj)
	b.LS2.foldInto(b.Mlp.CProj)
	b.LS1, b.LS2 = nil, nil
}

// Block is a residual attention block: x += ls_1(attn(ln_1(x))); x += ls_2(mlp(ln_2(x))).
type Block struct {
	LN1  *nn.LayerNorm `torch:"ln_1"`
	Attn *Attention
	LS1  *LayerScale   `torch:"ls_1"` // nil but for configurations with LayerScale
	LN2  *nn.LayerNorm `torch:"ln_2"`
	Mlp  *MLP
	LS2  *LayerScale `torch:"ls_2"`

	frozen *frozenBlock // set by Freeze
}

func (b *Block) forward(x *torch.Tensor, causal, maps bool) (y, weights *torch.Tensor) {
	if b.frozen != nil {
		return b.frozen.forward(x, causal, maps)
	}
	n := b.LN1.Forward(x)
	a, weights := b.Attn.forward(n, causal, maps)
	a = b.LS1.forward(a)
	h := x.Add(a)
	free(n, a)
	n = b.LN2.Forward(h)
	m := b.LS2.forward(b.Mlp.forward(n))
	y = h.Add(m)
	free(n, m, h)
	return y, weights
}

// forwardOne is the output of forward at one place a row: the other places of the last block are read by nobody.
func (b *Block) forwardOne(x *torch.Tensor, r reader) *torch.Tensor {
	if b.frozen != nil {
		return b.frozen.forwardOne(x, r)
	}
	n := b.LN1.Forward(x)
	one, at := r.pick(n), r.pick(x)
	a := b.LS1.forward(b.Attn.forwardOne(one, n, r.mask))
	h := at.Add(a)
	free(n, one, at, a)
	n = b.LN2.Forward(h)
	m := b.LS2.forward(b.Mlp.forward(n))
	y := h.Add(m)
	free(n, m, h)
	return y
}

// reader says which place of each row is read out.
type reader struct {
	at   *torch.Tensor // [B], int64; nil: the first place
	rows *torch.Tensor // 0 … B-1
	mask *torch.Tensor // bool [B, 1, 1, L]: what the place sees; nil: everything
}

// readAt reads places at [B] of L, under a causal mask or none.
func readAt(at *torch.Tensor, l int, causal bool) reader {
	if !causal {
		return reader{at: at, rows: torch.Arange(0, at.Size(0), 1, at.Device())}
	}
	places := torch.Arange(0, l, 1, at.Device())
	last := at.Unsqueeze(1)
	seen := places.Le(last) // [B, L]
	r := reader{at: at, rows: torch.Arange(0, at.Size(0), 1, at.Device()), mask: seen.View(at.Size(0), 1, 1, l)}
	free(places, last, seen)
	return r
}

func (r reader) free() { free(r.at, r.rows, r.mask) }

// pick maps [B, L, D] to [B, 1, D].
func (r reader) pick(x *torch.Tensor) *torch.Tensor {
	if r.at == nil {
		return x.Slice(1, 0, 1, 1)
	}
	p := x.Index([]*torch.Tensor{r.rows, r.at})
	y := p.Unsqueeze(1)
	p.Free()
	return y
}

// Transformer is a stack of blocks over [B, L, D].
type Transformer struct {
	Resblocks []*Block
}

// forward frees x. maps collects the attention weights of each block.
func (t *Transformer) forward(x *torch.Tensor, causal bool, maps *[]*torch.Tensor) *torch.Tensor {
	for _, b := range t.Resblocks {
		y, w := b.forward(x, causal, maps != nil)
		x = replace(x, y)
		if maps != nil {
			*maps = append(*maps, w)
		}
	}
	return x
}

// forwardOne is the output [B, D] at one place a row. It frees x.
func (t *Transformer) forwardOne(x *torch.Tensor, causal bool, r reader) *torch.Tensor {
	last := len(t.Resblocks) - 1
	for _, b := range t.Resblocks[:last] {
		y, _ := b.forward(x, causal, false)
		x = replace(x, y)
	}
	y := t.Resblocks[last].forwardOne(x, r)
	z := y.Squeeze(1)
	free(x, y)
	return z
}

// free gives temporaries back early: inside a scope they would live until its end. Autograd keeps what it needs.
func free(ts ...*torch.Tensor) {
	for _, t := range ts {
		t.Free()
	}
}

// draw makes parameters: filled ones for training, unfilled ones for weights that are loaded next.
type draw struct {
	opts []nn.Option
	fill bool
}

func (d draw) normal(std float64, shape ...int) *torch.Tensor {
	t := torch.Empty(shape)
	if d.fill {
		nn.Normal_(t, 0, std, nil)
	}
	return t.SetRequiresGrad(true)
}

func (d draw) transformer(width, heads, layers, mlp int, act Act, eps float64, scaled bool) *Transformer {
	t := &Transformer{}
	for range layers {
		a := &Attention{InProjWeight: torch.Empty(torch.S(3*width, width)), InProjBias: torch.Zeros(torch.S(3 * width)).SetRequiresGrad(true),
			OutProj: nn.NewLinear(width, width, d.opts...), Heads: heads}
		if d.fill {
			nn.XavierUniform_(a.InProjWeight, 1, nil)
			nn.Zeros_(a.OutProj.Bias)
		}
		a.InProjWeight.SetRequiresGrad(true)
		b := &Block{
			LN1: d.norm(width, eps), Attn: a, LN2: d.norm(width, eps),
			Mlp: &MLP{CFc: nn.NewLinear(width, mlp, d.opts...), CProj: nn.NewLinear(mlp, width, d.opts...), act: act},
		}
		if scaled {
			b.LS1, b.LS2 = d.scale(width), d.scale(width)
		}
		t.Resblocks = append(t.Resblocks, b)
	}
	return t
}

func (d draw) scale(width int) *LayerScale {
	return &LayerScale{torch.Full(torch.S(width), float32(1e-5)).SetRequiresGrad(true)}
}

func (d draw) norm(width int, eps float64) *nn.LayerNorm {
	return nn.NewLayerNorm(torch.S(width), nn.Eps(eps))
}
