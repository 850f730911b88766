package clip

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// quickGELUFactor: x·σ(1.702x) is swish(1.702x)/1.702, so with 1.702 folded into the weights before it and 1/1.702 into those after it, oneDNN's swish computes it.
const quickGELUFactor = 1.702

// packedLinear is a linear layer whose weights lie as oneDNN's kernels read them, with the activation computed before the result leaves the cache.
type packedLinear struct {
	weight *torch.Tensor // opaque
	bias   *torch.Tensor
	act    string // oneDNN's post-operation: none, gelu, swish
	form   string // of gelu: none or tanh
}

// pack takes float32 weights [out, in]; factor and biasFactor are multiplied in before rounding to dtype.
func pack(weight, bias *torch.Tensor, dtype torch.DType, act string, factor, biasFactor float64) *packedLinear {
	p := &packedLinear{act: act, form: "none"}
	torch.Scope(func(s *torch.Arena) {
		torch.NoGrad(func() {
			w := weight.Detach().ToDType(torch.Float32).MulScalar(factor).ToDType(dtype).Contiguous()
			p.weight = torch.Call("mkldnn::_reorder_linear_weight", w)[0].(*torch.Tensor)
			s.Keep(p.weight)
			if bias != nil {
				p.bias = bias.Detach().ToDType(torch.Float32).MulScalar(biasFactor).ToDType(dtype)
				s.Keep(p.bias)
			}
		})
	})
	return p
}

var noScalars = []float64{}

func (p *packedLinear) forward(x *torch.Tensor) *torch.Tensor {
	return torch.Call("mkldnn::_linear_pointwise", x, p.weight, p.bias, p.act, noScalars, p.form)[0].(*torch.Tensor)
}

// forwardAdd is forward(x) + other in one pass.
func (p *packedLinear) forwardAdd(x, other *torch.Tensor) *torch.Tensor {
	return torch.Call("mkldnn::_linear_pointwise.binary", x, other, p.weight, p.bias, "add")[0].(*torch.Tensor)
}

// frozenBlock is a Block for inference on a CPU.
type frozenBlock struct {
	ln1, ln2           *nn.LayerNorm // gains and biases stay float32
	q, kv, qkv         *packedLinear
	outProj, fc, cProj *packedLinear
	heads              int
	scaled             bool // 1/√(width of a head) is part of the queries' weights
}

// composedBytes bounds the attention weights of a batch that are written out; larger ones go through libtorch's blockwise attention, which takes a third longer on a CPU.
var composedBytes = 64 << 20

// freeze packs a block. causal blocks keep libtorch's attention: their rows are short. Only the last block needs q and kv apart; the others need them together. The block's own matrices are freed.
func (b *Block) freeze(dtype torch.DType, causal, last bool) {
	b.foldScales()
	a := b.Attn
	scaled := dtype == torch.BFloat16 && !causal
	inWeight, inBias := a.InProjWeight, a.InProjBias
	if scaled {
		inWeight, inBias = scaleQueries(inWeight, a.Heads), scaleQueries(inBias, a.Heads)
		defer free(inWeight, inBias)
	}
	f := &frozenBlock{ln1: b.LN1, ln2: b.LN2, heads: a.Heads, scaled: scaled,
		qkv:     pack(inWeight, inBias, dtype, "none", 1, 1),
		outProj: pack(a.OutProj.Weight, a.OutProj.Bias, dtype, "none", 1, 1)}
	if last {
		d := a.InProjWeight.Size(1)
		rows := func(from, to int) *packedLinear {
			w, b := a.InProjWeight.Slice(0, from, to, 1), a.InProjBias.Slice(0, from, to, 1)
			defer free(w, b)
			return pack(w, b, dtype, "none", 1, 1)
		}
		f.q, f.kv = rows(0, d), rows(d, 3*d)
	}
	act, in, out := "gelu", 1.0, 1.0
	if b.Mlp.act == QuickGELU {
		act, in, out = "swish", quickGELUFactor, 1/quickGELUFactor
	}
	f.fc = pack(b.Mlp.CFc.Weight, b.Mlp.CFc.Bias, dtype, act, in, in)
	if b.Mlp.act == GELUTanh {
		f.fc.form = "tanh"
	}
	f.cProj = pack(b.Mlp.CProj.Weight, b.Mlp.CProj.Bias, dtype, "none", out, 1)
	free(a.InProjWeight, a.InProjBias, a.OutProj.Weight, a.OutProj.Bias, b.Mlp.CFc.Weight, b.Mlp.CFc.Bias, b.Mlp.CProj.Weight, b.Mlp.CProj.Bias)
	b.Attn, b.Mlp = nil, nil
	b.frozen = f
}

// scaleQueries multiplies the queries' third of the rows by 1/√(width of a head).
func scaleQueries(w *torch.Tensor, heads int) (out *torch.Tensor) {
	torch.Scope(func(s *torch.Arena) {
		torch.NoGrad(func() {
			d := w.Size(0) / 3
			out = w.Detach().Clone()
			out.Slice(0, 0, d, 1).MulScalar_(1 / math.Sqrt(float64(d/heads)))
			s.Keep(out)
		})
	})
	return out
}

// attend is softmax(q·kᵀ)·v of scaled queries.
func (f *frozenBlock) attend(q, k, v *torch.Tensor, maps bool) (o, weights *torch.Tensor) {
	s := q.Shape()
	if !maps && s[0]*s[1]*s[2]*s[2]*q.DType().Size() > composedBytes {
		return torch.Call("aten::scaled_dot_product_attention", q, k, v, nil, 0.0, false, 1.0, false)[0].(*torch.Tensor), nil
	}
	kt := k.Transpose(-2, -1)
	scores := q.Matmul(kt)
	weights = scores.Softmax(-1)
	free(kt, scores)
	o = weights.Matmul(v)
	if !maps {
		weights.Free()
		weights = nil
	}
	return o, weights
}

func (f *frozenBlock) forward(x *torch.Tensor, causal, maps bool) (y, weights *torch.Tensor) {
	n := f.ln1.Forward(x)
	qkv := f.qkv.forward(n)
	p := cutHeads(qkv, 3, f.heads)
	var o *torch.Tensor
	if f.scaled {
		o, weights = f.attend(p[0], p[1], p[2], maps)
	} else {
		o, weights = attend(p[0], p[1], p[2], causal, maps)
	}
	joined := joinHeads(o)
	h := f.outProj.forwardAdd(joined, x)
	free(p...)
	free(n, qkv, o, joined)
	return f.mlp(h), weights
}

// mlp frees h.
func (f *frozenBlock) mlp(h *torch.Tensor) *torch.Tensor {
	n := f.ln2.Forward(h)
	g := f.fc.forward(n)
	y := f.cProj.forwardAdd(g, h)
	free(n, g, h)
	return y
}

func (f *frozenBlock) forwardOne(x *torch.Tensor, r reader) *torch.Tensor {
	n := f.ln1.Forward(x)
	one, at := r.pick(n), r.pick(x)
	q, kv := f.q.forward(one), f.kv.forward(n)
	qs, p := cutHeads(q, 1, f.heads), cutHeads(kv, 2, f.heads)
	o := torch.ScaledDotProductAttention(qs[0], p[0], p[1], r.mask, 0, false)
	joined := joinHeads(o)
	h := f.outProj.forwardAdd(joined, at)
	free(n, one, at, q, kv, qs[0], p[0], p[1], o, joined)
	return f.mlp(h)
}

// cutPatches maps [B, 3, H, W] to [B, rows·columns, 3·side·side]: what a convolution with this stride looks at. It frees nothing.
func cutPatches(x *torch.Tensor, side, rows, columns int) *torch.Tensor {
	b := x.Size(0)
	if s := x.Shape(); s[2] != rows*side || s[3] != columns*side {
		x = x.Slice(2, 0, rows*side, 1).Slice(3, 0, columns*side, 1).Contiguous()
	}
	return x.View(b, 3, rows, side, columns, side).Permute(0, 2, 4, 1, 3, 5).Reshape(b, rows*columns, 3*side*side)
}

// Freeze turns the transformers of a CLIP into their form for inference on a CPU in dtype (Float32 or BFloat16): weights packed for oneDNN, activations and residual sums
// inside the matrix products. The block's own parameters are freed; the CLIP can no longer be trained, saved or converted. Of a ModifiedResNet the norms become part of the convolutions; everything outside
// the blocks is only converted. It must not be called inside a torch.Scope.
func (m *CLIP) Freeze(dtype torch.DType) error {
	return torch.Try(func() {
		if v, ok := m.Visual.(*ViT); ok && v.patches == nil {
			w := v.Conv1.Weight.Flatten(1, 3)
			v.patches = pack(w, nil, dtype, "none", 1, 1)
			free(w, v.Conv1.Weight)
			v.Conv1 = nil
		}
		if r, ok := m.Visual.(*ModifiedResNet); ok && !r.folded {
			r.fold()
		}
		for _, f := range m.freezers(dtype) {
			f()
		}
		convert(m, dtype)
	})
}

// freezers freeze a block each, by the names "visual.0", … of the image tower and "0", … of the text tower. A second call does nothing.
func (m *CLIP) freezers(dtype torch.DType) map[string]func() {
	all := map[string]func(){}
	add := func(prefix string, t *Transformer, causal bool) {
		for i, b := range t.Resblocks {
			all[fmt.Sprint(prefix, i)] = func() {
				if b.frozen == nil {
					b.freeze(dtype, causal, i == len(t.Resblocks)-1)
				}
			}
		}
	}
	if v, ok := m.Visual.(*ViT); ok {
		add("visual.", v.Transformer, false)
	}
	if m.Config.Text != nil {
		add("", m.Transformer, !m.Config.Text.Bidirectional)
	}
	return all
}

// convert changes the type of all parameters but those of normalisations, which libtorch mixes with narrower inputs, and the logit scale.
func convert(m *CLIP, dtype torch.DType) {
	keep := m.kept()
	nn.Walk(m, func(e nn.Entry) {
		if keep[e.Tensor] || !e.Tensor.DType().IsFloat() || e.Tensor.DType() == dtype {
			return
		}
		torch.Scope(func(*torch.Arena) {
			torch.NoGrad(func() { e.Tensor.SetData(e.Tensor.ToDType(dtype)) })
		})
	})
}

// kept are the parameters that stay float32.
func (m *CLIP) kept() map[*torch.Tensor]bool {
	keep := map[*torch.Tensor]bool{m.LogitScale: true, m.LogitBias: true}
	for _, l := range nn.Modules(m) {
		switch n := l.(type) {
		case *nn.LayerNorm:
			keep[n.Weight], keep[n.Bias] = true, true
		case *nn.BatchNorm2d:
			keep[n.Weight], keep[n.Bias], keep[n.RunningMean], keep[n.RunningVar] = true, true, true, true
		}
	}
	return keep
}
