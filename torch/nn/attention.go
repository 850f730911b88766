package nn

import (
	"math"

	"github.com/gospml/gospml/torch"
)

// MultiheadAttention is softmax(q·kᵀ/√d)·v over NumHeads slices of width d = EmbedDim/NumHeads, between an input and an
// output projection (torch.nn.MultiheadAttention; Vaswani et al. 2017, arXiv:1706.03762).
type MultiheadAttention struct {
	InProjWeight *torch.Tensor // [3·EmbedDim, EmbedDim]: rows of the query, the key, the value; nil with KDim or VDim
	QProjWeight  *torch.Tensor // [EmbedDim, EmbedDim], with KDim or VDim only
	KProjWeight  *torch.Tensor // [EmbedDim, KDim]
	VProjWeight  *torch.Tensor // [EmbedDim, VDim]
	InProjBias   *torch.Tensor // [3·EmbedDim]; nil without bias
	BiasK        *torch.Tensor // [1, 1, EmbedDim], one more key, with AddBiasKV only
	BiasV        *torch.Tensor // [1, 1, EmbedDim], its value
	OutProj      *Linear

	EmbedDim, NumHeads, KDim, VDim int
	Dropout                        float64 // of the attention weights in training mode
	BatchFirst                     bool    // sequences are [N, L, E], not [L, N, E]
	AddZeroAttn                    bool    // one more key and value of zeros
	Training                       bool    // set by SetTraining
}

// NewMultiheadAttention draws as Python does: the input projections by XavierUniform_ over the fused matrix, OutProj as a
// Linear, biases zero. Options: Bias, DropoutP, BatchFirst, KDim, VDim, AddBiasKV, AddZeroAttn, DType, Device, Generator, NoInit.
func NewMultiheadAttention(embedDim, numHeads int, opts ...Option) *MultiheadAttention {
	c := gather("nn.NewMultiheadAttention", factory+"Bias DropoutP BatchFirst KDim VDim AddBiasKV AddZeroAttn ", opts)
	if embedDim < 1 || numHeads < 1 || embedDim%numHeads != 0 {
		refuse("nn.NewMultiheadAttention", "embed_dim %d must be a positive multiple of num_heads %d", embedDim, numHeads)
	}
	m := &MultiheadAttention{
		EmbedDim: embedDim, NumHeads: numHeads, KDim: embedDim, VDim: embedDim, Dropout: c.p,
		BatchFirst: c.batchFirst, AddZeroAttn: c.addZeroAttn, Training: true,
	}
	if c.kdim > 0 {
		m.KDim = c.kdim
	}
	if c.vdim > 0 {
		m.VDim = c.vdim
	}
	projections := []*torch.Tensor{}
	if m.KDim == embedDim && m.VDim == embedDim {
		m.InProjWeight = c.empty(3*embedDim, embedDim)
		projections = append(projections, m.InProjWeight)
	} else {
		m.QProjWeight, m.KProjWeight, m.VProjWeight = c.empty(embedDim, embedDim), c.empty(embedDim, m.KDim), c.empty(embedDim, m.VDim)
		projections = append(projections, m.QProjWeight, m.KProjWeight, m.VProjWeight)
	}
	m.OutProj = &Linear{Weight: c.empty(embedDim, embedDim), InFeatures: embedDim, OutFeatures: embedDim}
	if c.bias {
		m.InProjBias, m.OutProj.Bias = c.zeros(3*embedDim), c.empty(embedDim)
	}
	c.reset(m.OutProj.Weight, m.OutProj.Bias)
	if c.addBiasKV {
		m.BiasK, m.BiasV = c.empty(1, 1, embedDim), c.empty(1, 1, embedDim)
	}
	if !c.noInit {
		for _, w := range projections {
			XavierUniform_(w, 1, c.gen)
		}
		if c.bias {
			Zeros_(m.OutProj.Bias)
		}
		if c.addBiasKV {
			XavierNormal_(m.BiasK, 1, c.gen)
			XavierNormal_(m.BiasV, 1, c.gen)
		}
	}
	trained(projections...)
	trained(m.InProjBias, m.BiasK, m.BiasV, m.OutProj.Weight, m.OutProj.Bias)
	return m
}

// Attention are the masks of a call and what it gives back. The zero value attends everywhere and gives no weights.
type Attention struct {
	// KeyPaddingMask is [N, S] (or [S] for one sequence): bool, true = this key is ignored, or a float that is added to the scores.
	KeyPaddingMask *torch.Tensor
	// Mask is [L, S] or [N·NumHeads, L, S]: bool, true = this pair is ignored, or a float that is added to the scores.
	Mask *torch.Tensor
	// Causal lets position i see the keys 0 … i only. It may stand beside KeyPaddingMask, not beside Mask.
	Causal bool
	// NeedWeights asks for the attention weights after softmax (and dropout, in training mode): the mean over the heads, or
	// with PerHead each head's. Without them libtorch's fused attention is used.
	NeedWeights, PerHead bool
}

// Forward lets the queries [L, N, EmbedDim] attend to keys [S, N, KDim] and values [S, N, VDim] and returns [L, N, EmbedDim];
// with BatchFirst N comes first; without N all are one sequence. weights are [N, L, S] or, with PerHead, [N, NumHeads, L, S],
// where S counts AddBiasKV's and AddZeroAttn's keys too; nil unless they were asked for. A query whose keys are all masked
// gives NaN, as in PyTorch, or zeros where the fused attention does so.
func (m *MultiheadAttention) Forward(query, key, value *torch.Tensor, o Attention) (y, weights *torch.Tensor) {
	const op = "nn.MultiheadAttention"
	dims := query.Dim()
	if dims != 2 && dims != 3 || key.Dim() != dims || value.Dim() != dims {
		refuse(op, "query, key and value must all have 3 dimensions, or 2 for one sequence; they have %d, %d and %d", dims, key.Dim(), value.Dim())
	}
	if o.Causal && o.Mask != nil {
		refuse(op, "Causal and Mask exclude each other; put the mask of CausalMask into Mask")
	}
	var made temporaries
	defer made.free()

	batched := dims == 3
	same, sameKV := query.Same(key) && query.Same(value), key.Same(value)
	first := func(x *torch.Tensor) *torch.Tensor { // [N, L, E]
		switch {
		case !batched:
			return made.add(x.Unsqueeze(0))
		case m.BatchFirst:
			return x
		}
		return made.add(x.Transpose(0, 1))
	}
	q := first(query)
	k, v := q, q
	if !same {
		if k = first(key); sameKV {
			v = k
		} else {
			v = first(value)
		}
	}
	qs, ks, vs := q.Shape(), k.Shape(), v.Shape()
	if qs[2] != m.EmbedDim || ks[2] != m.KDim || vs[2] != m.VDim {
		refuse(op, "the widths of query, key, value are %d, %d, %d; the layer has %d, %d, %d", qs[2], ks[2], vs[2], m.EmbedDim, m.KDim, m.VDim)
	}
	if ks[0] != qs[0] || vs[0] != qs[0] || ks[1] != vs[1] {
		refuse(op, "query %v, key %v and value %v (batch, length, width) do not belong together", qs, ks, vs)
	}
	n, l, s := qs[0], qs[1], ks[1]
	q, k, v = m.project(&made, q, k, v, same, sameKV)

	if m.BiasK != nil {
		k = made.add(torch.Cat([]*torch.Tensor{k, made.add(m.BiasK.Expand(n, 1, m.EmbedDim))}, 1))
		v = made.add(torch.Cat([]*torch.Tensor{v, made.add(m.BiasV.Expand(n, 1, m.EmbedDim))}, 1))
	}
	if m.AddZeroAttn {
		zero := made.add(torch.Zeros(torch.S(n, 1, m.EmbedDim), k.DType(), k.Device()))
		k, v = made.add(torch.Cat([]*torch.Tensor{k, zero}, 1)), made.add(torch.Cat([]*torch.Tensor{v, zero}, 1))
	}
	extra := k.Size(1) - s
	heads := func(x *torch.Tensor, length int) *torch.Tensor { // [N, H, L, d]
		return made.add(made.add(x.Unflatten(2, m.NumHeads, m.EmbedDim/m.NumHeads)).Transpose(1, 2))
	}
	q, k, v = heads(q, l), heads(k, s+extra), heads(v, s+extra)

	causal := o.Causal
	if causal && (o.KeyPaddingMask != nil || o.NeedWeights || extra > 0) {
		o.Mask, causal = made.add(CausalMask(l, s, q.DType(), q.Device())), false
	}
	mask := m.mask(&made, o, q.DType(), n, l, s, extra)
	p := 0.0
	training := m.Training
	torch.ReplayIf(func() bool { return m.Training == training })
	if m.Training {
		p = m.Dropout
	}
	var h *torch.Tensor
	if o.NeedWeights {
		h, weights = weighted(&made, q, k, v, mask, p)
		if !o.PerHead {
			made.add(weights)
			weights = weights.MeanDim([]int{1}, false)
		}
		if !batched {
			made.add(weights)
			weights = weights.Squeeze(0)
		}
	} else {
		h = made.add(torch.ScaledDotProductAttention(q, k, v, mask, p, causal))
	}
	// In training the result lies in memory as Python's does, [L, N, E], so that a dropout after it draws the same numbers for
	// the same elements.
	lengthFirst := m.Training
	if lengthFirst {
		h = made.add(made.add(h.Permute(2, 0, 1, 3)).Reshape(l, n, m.EmbedDim))
	} else {
		h = made.add(made.add(h.Transpose(1, 2)).Reshape(n, l, m.EmbedDim))
	}
	y = m.OutProj.Forward(h)
	switch {
	case !batched:
		made.add(y)
		return y.View(l, m.EmbedDim), weights
	case lengthFirst == m.BatchFirst:
		made.add(y)
		return y.Transpose(0, 1), weights
	}
	return y, weights
}

// project multiplies with the input projections, in one matrix product where the inputs are one tensor.
func (m *MultiheadAttention) project(made *temporaries, q, k, v *torch.Tensor, same, sameKV bool) (_, _, _ *torch.Tensor) {
	e := m.EmbedDim
	rows := func(t *torch.Tensor, from, n int) *torch.Tensor {
		if t == nil {
			return nil
		}
		return made.add(t.Narrow(0, from*e, n*e))
	}
	linear := func(x, w, b *torch.Tensor) *torch.Tensor { return made.add(torch.Linear(x, w, b)) }
	cut := func(x *torch.Tensor, i int) *torch.Tensor { return made.add(x.Narrow(2, i*e, e)) }
	switch {
	case m.InProjWeight == nil:
		return linear(q, m.QProjWeight, rows(m.InProjBias, 0, 1)), linear(k, m.KProjWeight, rows(m.InProjBias, 1, 1)), linear(v, m.VProjWeight, rows(m.InProjBias, 2, 1))
	case same:
		all := linear(q, m.InProjWeight, m.InProjBias)
		return cut(all, 0), cut(all, 1), cut(all, 2)
	case sameKV:
		kv := linear(k, rows(m.InProjWeight, 1, 2), rows(m.InProjBias, 1, 2))
		return linear(q, rows(m.InProjWeight, 0, 1), rows(m.InProjBias, 0, 1)), cut(kv, 0), cut(kv, 1)
	}
	return linear(q, rows(m.InProjWeight, 0, 1), rows(m.InProjBias, 0, 1)),
		linear(k, rows(m.InProjWeight, 1, 1), rows(m.InProjBias, 1, 1)), linear(v, rows(m.InProjWeight, 2, 1), rows(m.InProjBias, 2, 1))
}

// mask joins both masks into one that is added to scores [N, H, L, S]; nil where there is none.
func (m *MultiheadAttention) mask(made *temporaries, o Attention, d torch.DType, n, l, s, extra int) *torch.Tensor {
	const op = "nn.MultiheadAttention"
	added := func(t *torch.Tensor) *torch.Tensor { // as a float
		if t.DType() != torch.Bool {
			if t.DType() != d {
				t = made.add(t.ToDType(d))
			}
		} else {
			t = made.add(made.add(torch.Zeros(t.Shape(), d, t.Device())).MaskedFill(t, math.Inf(-1)))
		}
		if extra > 0 {
			t = made.add(t.Pad([]int{0, extra}, "constant", 0.0))
		}
		return t
	}
	var mask *torch.Tensor
	if o.Mask != nil {
		shape := o.Mask.Shape()
		switch {
		case len(shape) == 2 && shape[0] == l && shape[1] == s:
			mask = made.add(added(o.Mask).View(1, 1, l, s+extra))
		case len(shape) == 3 && shape[0] == n*m.NumHeads && shape[1] == l && shape[2] == s:
			mask = made.add(added(o.Mask).Reshape(n, m.NumHeads, l, s+extra))
		default:
			refuse(op, "Mask is %v; it must be [%d %d] or [%d %d %d]", shape, l, s, n*m.NumHeads, l, s)
		}
	}
	if o.KeyPaddingMask == nil {
		return mask
	}
	shape := o.KeyPaddingMask.Shape()
	if !(len(shape) == 2 && shape[0] == n && shape[1] == s) && !(len(shape) == 1 && n == 1 && shape[0] == s) {
		refuse(op, "KeyPaddingMask is %v; it must be [%d %d]", shape, n, s)
	}
	padding := made.add(added(o.KeyPaddingMask).Reshape(n, 1, 1, s+extra))
	if mask == nil {
		return made.add(padding.Expand(n, m.NumHeads, l, s+extra))
	}
	return made.add(mask.Add(padding))
}

// weighted is attention in plain operations, which leave the weights [N, H, L, S] behind.
func weighted(made *temporaries, q, k, v, mask *torch.Tensor, p float64) (y, weights *torch.Tensor) {
	scores := made.add(made.add(q.MulScalar(1 / math.Sqrt(float64(q.Size(3))))).Matmul(made.add(k.Transpose(2, 3))))
	if mask != nil {
		scores = made.add(scores.Add(mask))
	}
	weights = scores.Softmax(3)
	if p > 0 {
		made.add(weights)
		weights = torch.Dropout(weights, p, true)
	}
	return made.add(weights.Matmul(v)), weights
}

// CausalMask is [l, s] with minus infinity where the key's position is larger than the query's and zero elsewhere
// (torch.nn.Transformer.generate_square_subsequent_mask). Options: a torch.DType, a torch.Device.
func CausalMask(l, s int, opts ...torch.Option) *torch.Tensor {
	full := torch.Full(torch.S(l, s), math.Inf(-1), opts...)
	defer full.Free()
	return full.Triu(1)
}

// temporaries are the results between the operations of a layer. They are freed at its end, so that inference does not hold
// them until the end of a scope; autograd keeps what it needs by itself.
type temporaries []*torch.Tensor

func (ts *temporaries) add(t *torch.Tensor) *torch.Tensor {
	*ts = append(*ts, t)
	return t
}

func (ts *temporaries) free() {
	for _, t := range *ts {
		t.Free()
	}
}
