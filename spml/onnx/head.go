package onnx

import (
	"math"

	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/internal/graph"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// logits writes a network from normalised images [B, 3, h, w] to logits [B, C].
func (w *writer) logits(d *model.Description, images string, h, wd int) string {
	switch {
	case d.Decoder != nil:
		return w.labelwise(d.Decoder, d.Latent, w.memory(d.Body, images, h, wd))
	case d.ML != nil:
		return w.grouped(d.ML, w.memory(d.Body, images, h, wd).name)
	case d.Boosted != nil:
		return w.boosted(d, w.memory(d.Body, images, h, wd))
	case d.Texts != nil:
		return w.compared(d.Texts, w.network(d.Body, images, h, wd, d.Body.Maps).name)
	}
	if d.Body.Logits.Channels() == 0 {
		w.refuse("a network without a head")
		return images
	}
	y := w.network(d.Body, images, h, wd, d.Body.Logits)
	if y.kind == rows {
		return y.name
	}
	return w.node("Flatten", []string{y.name}, "axis", 1)
}

// memory is a feature map as tokens [B, h·w, D].
func (w *writer) memory(d *graph.Description, images string, h, wd int) activation {
	m := w.network(d, images, h, wd, d.Maps)
	switch {
	case m.kind == pixels:
		m.name = w.turn(w.reshape(m.name, 0, int64(m.channels), -1), 0, 2, 1)
	case d.Prefix > 0:
		m.name = w.slice(m.name, 1, int64(d.Prefix), math.MaxInt64)
	}
	m.kind = tokens
	return m
}

// labelwise is LAC's decoder.
func (w *writer) labelwise(d *decoder.Decoder, latent *decoder.Latent, m activation) string {
	memory := m.name
	if p := d.InputProj; p != nil {
		memory = w.linear(memory, p.Weight.Detach().Flatten(1, 3), p.Bias)
	}
	place, err := decoder.SinePosition(d.Config.Dim, m.h, m.w, torch.Float32)
	if err != nil {
		w.refuse("a decoder: %v", err)
		return memory
	}
	position := w.constant(place.Flatten(1, 2).T().Contiguous()) // [h·w, d]
	for _, l := range d.Encoder.Encoder.Layers {
		qk := w.plus(memory, position)
		a := w.multihead(l.SelfAttn, qk, qk, memory)
		memory = w.norm(w.plus(memory, a), l.Norm1.Weight, l.Norm1.Bias, l.Norm1.Eps)
		f := w.feedForward(memory, l.Linear1, l.Linear2)
		memory = w.norm(w.plus(memory, f), l.Norm2.Weight, l.Norm2.Bias, l.Norm2.Eps)
	}
	keys := w.plus(memory, position)
	queries := w.constant(d.QueryEmbed.Weight.Detach().Unsqueeze(0)) // [1, C, d]
	target := ""                                                     // of zeros at first
	for _, l := range d.Encoder.Decoder.Layers {
		q := queries
		if target != "" {
			q = w.plus(target, queries)
		}
		a := w.multihead(l.MultiheadAttn, q, keys, memory)
		if target != "" {
			a = w.plus(target, a)
		}
		target = w.norm(a, l.Norm2.Weight, l.Norm2.Bias, l.Norm2.Eps)
		f := w.feedForward(target, l.Linear1, l.Linear2)
		target = w.norm(w.plus(target, f), l.Norm3.Weight, l.Norm3.Bias, l.Norm3.Eps)
	}
	n := d.Encoder.Decoder.Norm
	target = w.norm(target, n.Weight, n.Bias, n.Eps)
	if latent != nil && latent.DEncoderAlpha == nil { // the classifier judges the latent's mean
		first, okFirst := latent.Proj[0].(*nn.Linear)
		last, okLast := latent.Proj[len(latent.Proj)-1].(*nn.Linear)
		if !okFirst || !okLast {
			w.refuse("a latent of other layers")
			return target
		}
		y := w.linear(w.node("Relu", []string{w.linear(target, first.Weight, first.Bias)}), last.Weight, last.Bias)
		target = w.slice(y, 2, 0, int64(last.OutFeatures/2))
	}
	return w.eachOwn(target, d.FC.W.Detach().Select(0, 0).Unsqueeze(2), d.FC.B.Detach().View(-1))
}

// eachOwn maps every row of t [B, G, D] by a matrix of its own [G, D, f]: the first of all G·f results, as many as
// there are biases. It is one product: OpenVINO adds wrong biases to a sum over factors where there are several images.
func (w *writer) eachOwn(t string, matrices, bias *torch.Tensor) string {
	y := w.node("MatMul", []string{w.node("Unsqueeze", []string{t, w.ints(2)}), w.constant(matrices)}) // [B, G, 1, f]
	y = w.node("Flatten", []string{y}, "axis", 1)
	if matrices.Size(0)*matrices.Size(2) > bias.Size(0) {
		y = w.slice(y, 1, 0, int64(bias.Size(0)))
	}
	return w.plus(y, w.constant(bias))
}

func (w *writer) feedForward(x string, first, second *nn.Linear) string {
	return w.linear(w.node("Relu", []string{w.linear(x, first.Weight, first.Bias)}), second.Weight, second.Bias)
}

// multihead is nn.MultiheadAttention in use.
func (w *writer) multihead(m *nn.MultiheadAttention, q, k, v string) string {
	if m.InProjWeight == nil || m.BiasK != nil || m.AddZeroAttn {
		w.refuse("attention with keys of another width")
		return q
	}
	d := m.EmbedDim
	part := func(x string, i int) string {
		var bias *torch.Tensor
		if m.InProjBias != nil {
			bias = m.InProjBias.Detach().Narrow(0, i*d, d)
		}
		return w.linear(x, m.InProjWeight.Detach().Narrow(0, i*d, d), bias)
	}
	y := w.attention(part(q, 0), part(k, 1), part(v, 2), d, m.NumHeads, 1/math.Sqrt(float64(d/m.NumHeads)))
	return w.linear(y, m.OutProj.Weight, m.OutProj.Bias)
}

// grouped is ML-Decoder over tokens.
func (w *writer) grouped(d *decoder.MLDecoder, memory string) string {
	memory = w.node("Relu", []string{w.linear(memory, d.EmbedStandart.Weight, d.EmbedStandart.Bias)})
	t := w.constant(d.QueryEmbed.Weight.Detach().Unsqueeze(0)) // [1, G, D]
	for _, l := range d.Layers {
		t = w.norm(w.plus(t, t), l.Norm1.Weight, l.Norm1.Bias, l.Norm1.Eps)
		a := w.multihead(l.MultiheadAttn, t, memory, memory)
		t = w.norm(w.plus(t, a), l.Norm2.Weight, l.Norm2.Bias, l.Norm2.Eps)
		t = w.norm(w.plus(t, w.feedForward(t, l.Linear1, l.Linear2)), l.Norm3.Weight, l.Norm3.Bias, l.Norm3.Eps)
	}
	return w.eachOwn(t, d.DuplicatePooling, d.DuplicatePoolingBias)
}

// compared are DualCoOp's logits of regions [B, L, E]: dualcoop.Aggregate, the positive logit less the negative one.
func (w *writer) compared(texts *torch.Tensor, regions string) string {
	const cosineScale, logitScale = 20, 5
	c := int64(texts.Size(0) / 2)
	sums := w.node("ReduceSum", []string{w.times(regions, regions), w.ints(-1)}, "keepdims", 1)
	unit := w.node("Div", []string{regions, w.node("Sqrt", []string{sums})})
	lengths := texts.Square().SumDim([]int{1}, true).Sqrt()
	directions := w.constant(texts.Div(lengths).MulScalar(cosineScale).T().Contiguous())
	cos := w.nodes("Split", []string{w.node("MatMul", []string{unit, directions}), w.ints(c, c)}, 2, "axis", -1)
	weights := w.node("Softmax", []string{cos[1]}, "axis", 1)
	apart := w.times(weights, w.node("Sub", []string{cos[1], cos[0]}))
	return w.times(w.node("ReduceSum", []string{apart, w.ints(1)}, "keepdims", 0), w.number(logitScale))
}

// boosted is a linear head on each position with positive scores raised, and their mean.
func (w *writer) boosted(d *model.Description, m activation) string {
	y := w.linear(m.name, d.Boosted.Weight, d.Boosted.Bias) // [B, h·w, C]
	raised := w.times(y, w.number(d.Boost))
	y = w.node("Where", []string{w.node("Greater", []string{y, w.number(0)}), raised, y})
	return w.node("ReduceMean", []string{y}, "axes", []int{1}, "keepdims", 0)
}
