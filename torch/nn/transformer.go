package nn

import "github.com/gospml/gospml/torch"

// TransformerEncoderLayer is self-attention and a feed-forward network, each with dropout, a residual connection and a
// LayerNorm after it, or with NormFirst before it (torch.nn.TransformerEncoderLayer; Vaswani et al. 2017):
//
//	x ← Norm1(x + Dropout1(SelfAttn(x)))                 NormFirst: x ← x + Dropout1(SelfAttn(Norm1(x)))
//	x ← Norm2(x + Dropout2(Linear2(Dropout(f(Linear1(x))))))        x ← x + Dropout2(…(Norm2(x)))
type TransformerEncoderLayer struct {
	SelfAttn *MultiheadAttention
	Linear1  *Linear
	Dropout  *Dropout
	Linear2  *Linear
	Norm1    *LayerNorm
	Norm2    *LayerNorm
	Dropout1 *Dropout
	Dropout2 *Dropout

	Activation Layer `torch:"-"` // f
	NormFirst  bool
}

// NewTransformerEncoderLayer makes a layer for sequences of width dModel with numHeads heads. Options: FeedForward (2048),
// DropoutP (0.1), Activation (ReLU), Eps, BatchFirst, NormFirst, Bias, DType, Device, Generator, NoInit.
func NewTransformerEncoderLayer(dModel, numHeads int, opts ...Option) *TransformerEncoderLayer {
	c := gather("nn.NewTransformerEncoderLayer", blockOptions, append([]Option{DropoutP(0.1)}, opts...))
	l := &TransformerEncoderLayer{SelfAttn: c.attention(dModel, numHeads), Activation: c.activation, NormFirst: c.normFirst}
	l.Linear1, l.Linear2 = c.linear(dModel, c.feedForward), c.linear(c.feedForward, dModel)
	l.Norm1, l.Norm2 = c.layerNorm(dModel), c.layerNorm(dModel)
	l.Dropout, l.Dropout1, l.Dropout2 = NewDropout(c.p), NewDropout(c.p), NewDropout(c.p)
	return l
}

const blockOptions = factory + "FeedForward DropoutP Activation Eps BatchFirst NormFirst Bias "

func (c *config) attention(dModel, numHeads int) *MultiheadAttention {
	return NewMultiheadAttention(dModel, numHeads, append(c.shared(), Bias(c.bias), DropoutP(c.p), BatchFirst(c.batchFirst))...)
}

func (c *config) linear(in, out int) *Linear {
	return NewLinear(in, out, append(c.shared(), Bias(c.bias))...)
}

func (c *config) layerNorm(width int) *LayerNorm {
	return NewLayerNorm([]int{width}, append(c.shared(), Eps(c.eps), Bias(c.bias))...)
}

// shared are the options that every layer takes.
func (c *config) shared() []Option {
	s := []Option{DType(c.dtype), Device(c.device), Generator(c.gen)}
	if c.noInit {
		s = append(s, NoInit())
	}
	return s
}

// Forward attends within x, [L, N, E] or with BatchFirst [N, L, E], under the masks of o, whose NeedWeights is not used. It keeps the shape.
func (l *TransformerEncoderLayer) Forward(x *torch.Tensor, o Attention) *torch.Tensor {
	attend := func(x *torch.Tensor) *torch.Tensor { return attended(l.SelfAttn, x, x, o) }
	feed := func(x *torch.Tensor) *torch.Tensor { return Through(x, l.Linear1, l.Activation, l.Dropout, l.Linear2) }
	y := residual(x, l.Norm1, l.Dropout1, l.NormFirst, attend)
	defer y.Free()
	return residual(y, l.Norm2, l.Dropout2, l.NormFirst, feed)
}

func attended(m *MultiheadAttention, x, memory *torch.Tensor, o Attention) *torch.Tensor {
	o.NeedWeights = false
	y, _ := m.Forward(x, memory, memory, o)
	return y
}

// residual is Norm(x + Dropout(f(x))) or, with first, x + Dropout(f(Norm(x))).
func residual(x *torch.Tensor, norm *LayerNorm, drop *Dropout, first bool, f func(*torch.Tensor) *torch.Tensor) *torch.Tensor {
	var made temporaries
	defer made.free()
	in := x
	if first {
		in = made.add(norm.Forward(x))
	}
	y := made.add(f(in))
	if z := drop.Forward(y); z != y {
		y = made.add(z)
	}
	sum := x.Add(y)
	if first {
		return sum
	}
	made.add(sum)
	return norm.Forward(sum)
}

// TransformerDecoderLayer is self-attention, attention to the memory of an encoder, and a feed-forward network, joined as
// in TransformerEncoderLayer (torch.nn.TransformerDecoderLayer).
type TransformerDecoderLayer struct {
	SelfAttn      *MultiheadAttention
	MultiheadAttn *MultiheadAttention
	Linear1       *Linear
	Dropout       *Dropout
	Linear2       *Linear
	Norm1         *LayerNorm
	Norm2         *LayerNorm
	Norm3         *LayerNorm
	Dropout1      *Dropout
	Dropout2      *Dropout
	Dropout3      *Dropout

	Activation Layer `torch:"-"`
	NormFirst  bool
}

// NewTransformerDecoderLayer makes a layer for sequences of width dModel with numHeads heads; the options are those of
// NewTransformerEncoderLayer.
func NewTransformerDecoderLayer(dModel, numHeads int, opts ...Option) *TransformerDecoderLayer {
	c := gather("nn.NewTransformerDecoderLayer", blockOptions, append([]Option{DropoutP(0.1)}, opts...))
	l := &TransformerDecoderLayer{Activation: c.activation, NormFirst: c.normFirst}
	l.SelfAttn, l.MultiheadAttn = c.attention(dModel, numHeads), c.attention(dModel, numHeads)
	l.Linear1, l.Linear2 = c.linear(dModel, c.feedForward), c.linear(c.feedForward, dModel)
	l.Norm1, l.Norm2, l.Norm3 = c.layerNorm(dModel), c.layerNorm(dModel), c.layerNorm(dModel)
	l.Dropout, l.Dropout1, l.Dropout2, l.Dropout3 = NewDropout(c.p), NewDropout(c.p), NewDropout(c.p), NewDropout(c.p)
	return l
}

// Forward lets the targets x, [T, N, E], attend to themselves under own and to memory [S, N, E] under cross. It keeps x's shape.
func (l *TransformerDecoderLayer) Forward(x, memory *torch.Tensor, own, cross Attention) *torch.Tensor {
	y := residual(x, l.Norm1, l.Dropout1, l.NormFirst, func(x *torch.Tensor) *torch.Tensor { return attended(l.SelfAttn, x, x, own) })
	defer y.Free()
	z := residual(y, l.Norm2, l.Dropout2, l.NormFirst, func(x *torch.Tensor) *torch.Tensor { return attended(l.MultiheadAttn, x, memory, cross) })
	defer z.Free()
	return residual(z, l.Norm3, l.Dropout3, l.NormFirst, func(x *torch.Tensor) *torch.Tensor {
		return Through(x, l.Linear1, l.Activation, l.Dropout, l.Linear2)
	})
}

// TransformerEncoder is a stack of layers (torch.nn.TransformerEncoder). Padded positions are computed as all others, as
// Python does in training mode.
type TransformerEncoder struct {
	Layers []*TransformerEncoderLayer
	Norm   *LayerNorm // after the last layer; nil = none
}

// NewTransformerEncoder stacks n copies of a layer: as in Python, all start with the same numbers and layer itself is not among them.
func NewTransformerEncoder(layer *TransformerEncoderLayer, n int, norm *LayerNorm) *TransformerEncoder {
	e := &TransformerEncoder{Norm: norm}
	for range n {
		e.Layers = append(e.Layers, Copy(layer))
	}
	return e
}

// Forward runs x through the layers under the same masks. It keeps the shape.
func (e *TransformerEncoder) Forward(x *torch.Tensor, o Attention) *torch.Tensor {
	return stack(x, e.Norm, len(e.Layers), func(i int, y *torch.Tensor) *torch.Tensor { return e.Layers[i].Forward(y, o) })
}

// TransformerDecoder is a stack of layers (torch.nn.TransformerDecoder).
type TransformerDecoder struct {
	Layers []*TransformerDecoderLayer
	Norm   *LayerNorm // after the last layer; nil = none
}

// NewTransformerDecoder stacks n copies of a layer; see NewTransformerEncoder.
func NewTransformerDecoder(layer *TransformerDecoderLayer, n int, norm *LayerNorm) *TransformerDecoder {
	d := &TransformerDecoder{Norm: norm}
	for range n {
		d.Layers = append(d.Layers, Copy(layer))
	}
	return d
}

// Forward runs x through the layers; see TransformerDecoderLayer.
func (d *TransformerDecoder) Forward(x, memory *torch.Tensor, own, cross Attention) *torch.Tensor {
	return stack(x, d.Norm, len(d.Layers), func(i int, y *torch.Tensor) *torch.Tensor {
		return d.Layers[i].Forward(y, memory, own, cross)
	})
}

func stack(x *torch.Tensor, norm *LayerNorm, n int, f func(i int, y *torch.Tensor) *torch.Tensor) *torch.Tensor {
	y := x
	next := func(z *torch.Tensor) {
		if y != x {
			y.Free()
		}
		y = z
	}
	for i := range n {
		next(f(i, y))
	}
	if norm != nil {
		next(norm.Forward(y))
	}
	return y
}
