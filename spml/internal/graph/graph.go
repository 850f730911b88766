// Package graph builds networks for inference on a CPU: lists of steps with their weights packed for the processor,
// which one call runs from images to logits (spml/csrc/frozen.h). Activations are channels-last; tokens are pixels of
// one row.
package graph

import (
	"errors"
	"fmt"
	"math"

	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ErrForm is wrapped where a network has a layer that no step computes.
var ErrForm = errors.New("no frozen form")

// Operations, as spml/csrc/frozen.h numbers them.
const (
	opConv = iota
	opDepthwise
	opMax
	opMean
	opNorm
	opAttention
	opToken
	opTake
)

// Act is an activation.
type Act int

// Activations.
const (
	None Act = iota
	clamp
	GELU
	GELUTanh
	QuickGELU
	ReLU
	ReLU6
)

// noAddend stands for "nothing is added", table for the rows of the table that comes with the images.
const (
	noAddend = -1
	table    = -2
)

// Value is an activation: what a step computes.
type Value struct{ id, channels int }

// Channels is how many a pixel has.
func (v Value) Channels() int { return v.channels }

// Builder collects steps. A layer that has none is an error of Build, which wraps ErrForm.
type Builder struct {
	constants []*torch.Tensor
	plain     map[*torch.Tensor]int // constants that are a layer's own
	read      map[*torch.Tensor]bool
	steps     []int
	numbers   []float64
	values    int
	err       error
}

// step is a record of spml/csrc/frozen.h.
type step struct {
	op, in, out, add, weight, bias int
	kernelH, kernelW, stride, pad  int
	act                            int
	channel, channels, count       int
	extra, extra2                  int
	first, second                  float64
}

func (b *Builder) add(s step) {
	b.steps = append(b.steps, s.op, s.in, s.out, s.add, s.weight, s.bias, s.kernelH, s.kernelW, s.stride, s.pad, s.act,
		s.channel, s.channels, s.count, s.extra, s.extra2)
	b.numbers = append(b.numbers, s.first, s.second)
}

func (b *Builder) value(channels int) Value {
	b.values++
	return Value{b.values, channels}
}

// Read says that the steps have these tensors of the network in them, by whatever way. What layers hold is read by
// their steps.
func (b *Builder) Read(tensors ...*torch.Tensor) {
	for _, t := range tensors {
		b.read[t] = true
	}
}

// Reads reports whether the steps have a tensor of the network in them.
func (b *Builder) Reads(t *torch.Tensor) bool { return b.read[t] }

// constant gives a tensor its number.
func (b *Builder) constant(t *torch.Tensor) int {
	if t == nil {
		return -1
	}
	b.constants = append(b.constants, t)
	return len(b.constants) - 1
}

// own is constant of a layer's tensor: steps that share it share what is packed.
func (b *Builder) own(t *torch.Tensor) int {
	if t == nil {
		return -1
	}
	n, ok := b.plain[t]
	if !ok {
		n = b.constant(t.Detach().ToDType(torch.Float32))
		b.plain[t] = n
	}
	return n
}

// weights are the numbers of weights and bias with the normalisation and the factor after them.
func (b *Builder) weights(weight, bias *torch.Tensor, t Then) (w, c int) {
	b.Read(weight, bias, t.Scale)
	if n := t.Norm; n != nil {
		b.Read(n.Weight, n.Bias, n.RunningMean, n.RunningVar)
	}
	if t.Norm == nil && t.Scale == nil {
		return b.own(weight), b.own(bias)
	}
	x, y := folded(weight, bias, t)
	return b.constant(x), b.constant(y)
}

// Input are the images.
func (b *Builder) Input() Value { return Value{0, 3} }

// Then is what follows a convolution or a linear layer, in this order: normalisation, a factor of each channel, an
// addend, the activation.
type Then struct {
	Norm  *nn.BatchNorm2d
	Scale *torch.Tensor // [C]
	Add   *Value
	Act   Act
}

// Conv is a convolution of groups 1, or of each channel by itself.
func (b *Builder) Conv(x Value, c *nn.Conv2d, then Then) Value {
	return b.ConvInto(b.value(c.OutChannels), 0, x, c, then)
}

// ConvInto writes the channels of out from channel on.
func (b *Builder) ConvInto(out Value, channel int, x Value, c *nn.Conv2d, then Then) Value {
	depthwise := c.Groups > 1 && c.Groups == c.InChannels && c.Groups == c.OutChannels && square(c.KernelSize) &&
		then.Add == nil && (then.Act == None || then.Act == ReLU || then.Act == ReLU6)
	if c.Groups != 1 && !depthwise || c.Dilation != [2]int{1, 1} || !square(c.Stride) || !square(c.Padding) {
		b.Refuse("a convolution of %d groups, dilation %v, stride %v, padding %v", c.Groups, c.Dilation, c.Stride, c.Padding)
		return out
	}
	weight, bias := b.weights(c.Weight, c.Bias, then)
	s := followed(from(opConv, x, out), then)
	s.weight, s.bias, s.channel, s.count = weight, bias, channel, c.OutChannels
	s.kernelH, s.kernelW, s.stride, s.pad = c.KernelSize[0], c.KernelSize[1], c.Stride[0], c.Padding[0]
	if depthwise {
		s.op = opDepthwise
	}
	b.add(s)
	return out
}

// Linear maps the channels of each pixel.
func (b *Builder) Linear(x Value, weight, bias *torch.Tensor, then Then) Value {
	out := b.value(weight.Size(0))
	w, c := b.weights(weight, bias, then)
	s := followed(from(opConv, x, out), then)
	s.weight, s.bias, s.kernelH, s.kernelW, s.stride = w, c, 1, 1, 1
	b.add(s)
	return out
}

// Tokens are the pixels of a convolution, each with its row of the table that comes with the images. Where there is a
// class token they lie behind it, and it is the table's first row.
func (b *Builder) Tokens(x Value, c *nn.Conv2d, class bool) Value {
	out := b.value(c.OutChannels)
	b.ConvInto(out, 0, x, c, Then{})
	conv := b.steps[len(b.steps)-16:]
	if conv[3] = table; class {
		conv[14] = 1
		b.add(from(opToken, x, out))
	}
	return out
}

// Same is one pixel of these numbers [C] for each image; x are any activations of C channels.
func (b *Builder) Same(x Value, numbers *torch.Tensor) Value {
	first := b.First(x)
	out := b.value(x.channels)
	s := from(opDepthwise, first, out)
	s.weight, s.bias = b.constant(torch.Zeros(torch.S(x.channels, 1, 1, 1))), b.own(numbers)
	s.stride = 1
	b.add(s)
	return out
}

func square(n [2]int) bool { return n[0] == n[1] }

// from is a step with neither constants nor an addend.
func from(op int, x, out Value) step {
	return step{
		op: op, in: x.id, out: out.id, add: noAddend, weight: -1, bias: -1, kernelH: 1, kernelW: 1, stride: 1,
		channels: out.channels, count: out.channels,
	}
}

// followed fills in what follows a step's sums.
func followed(s step, t Then) step {
	if t.Add != nil {
		s.add = t.Add.id
	}
	switch t.Act {
	case ReLU:
		s.act, s.second = int(clamp), math.Inf(1)
	case ReLU6:
		s.act, s.second = int(clamp), 6
	default:
		s.act = int(t.Act)
	}
	return s
}

// folded are weights and bias with the normalisation and the factor after them, computed in float64.
func folded(weight, bias *torch.Tensor, t Then) (w, b *torch.Tensor) {
	torch.Scope(func(a *torch.Arena) {
		w = weight.Detach().ToDType(torch.Float64)
		if bias != nil {
			b = bias.Detach().ToDType(torch.Float64)
		}
		if n := t.Norm; n != nil {
			g := n.RunningVar.ToDType(torch.Float64).AddScalar(n.Eps).Rsqrt()
			if n.Weight != nil {
				g = g.Mul(n.Weight.Detach())
			}
			shift := n.RunningMean.ToDType(torch.Float64).Neg()
			if b != nil {
				shift = shift.Add(b)
			}
			if b = shift.Mul(g); n.Bias != nil {
				b = b.Add(n.Bias.Detach())
			}
			w = byRow(w, g)
		}
		if t.Scale != nil {
			s := t.Scale.Detach().ToDType(torch.Float64)
			if w = byRow(w, s); b != nil {
				b = b.Mul(s)
			}
		}
		w = w.ToDType(torch.Float32)
		a.Keep(w)
		if b != nil {
			b = b.ToDType(torch.Float32)
			a.Keep(b)
		}
	})
	return w, b
}

// byRow multiplies each output's weights.
func byRow(w, by *torch.Tensor) *torch.Tensor {
	shape := []int{-1}
	for range w.Dim() - 1 {
		shape = append(shape, 1)
	}
	return w.Mul(by.View(shape...))
}

// MaxPool takes maxima over windows.
func (b *Builder) MaxPool(x Value, p *nn.MaxPool2d) Value {
	if !square(p.KernelSize) || !square(p.Stride) || !square(p.Padding) || p.Dilation != [2]int{1, 1} {
		b.Refuse("a pool of window %v, stride %v, padding %v, dilation %v", p.KernelSize, p.Stride, p.Padding, p.Dilation)
	}
	out := b.value(x.channels)
	s := from(opMax, x, out)
	s.kernelH, s.kernelW, s.stride, s.pad = p.KernelSize[0], p.KernelSize[1], p.Stride[0], p.Padding[0]
	if p.CeilMode {
		s.extra = 1
	}
	b.add(s)
	return out
}

// Channels makes room for steps that write a part each; see ConvInto.
func (b *Builder) Channels(n int) Value { return b.value(n) }

// Mean is the mean over all pixels.
func (b *Builder) Mean(x Value) Value { return b.simple(opMean, x) }

// First is the first token alone.
func (b *Builder) First(x Value) Value { return b.simple(opTake, x) }

func (b *Builder) simple(op int, x Value) Value {
	out := b.value(x.channels)
	b.add(from(op, x, out))
	return out
}

// Norm normalises the channels of each pixel.
func (b *Builder) Norm(x Value, gain, bias *torch.Tensor, eps float64) Value {
	if gain == nil {
		gain = torch.Ones(torch.S(x.channels))
	}
	w, c := b.weights(gain, bias, Then{})
	out := b.value(x.channels)
	s := from(opNorm, x, out)
	s.weight, s.bias, s.first = w, c, eps
	b.add(s)
	return out
}

// Attention is softmax(q·kᵀ·scale)·v of each head. qkv has queries, keys and values behind each other.
func (b *Builder) Attention(qkv Value, heads int, scale float64) Value {
	return b.attention(qkv, qkv, qkv.channels/3, heads, 0, scale)
}

// Attend is Attention of queries of their own over keys and values that lie behind each other.
func (b *Builder) Attend(q, kv Value, heads int, scale float64) Value {
	return b.attention(q, kv, q.channels, heads, 1, scale)
}

func (b *Builder) attention(q, kv Value, width, heads, apart int, scale float64) Value {
	out := b.value(width)
	s := from(opAttention, q, out)
	s.add, s.extra, s.extra2, s.first = kv.id, heads, apart, scale
	b.add(s)
	return out
}

// Refuse says what has no step.
func (b *Builder) Refuse(format string, arguments ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w for "+format, append([]any{ErrForm}, arguments...)...)
	}
}

// Network is a list of steps, ready to run. It is safe for many goroutines; its memory goes when it is freed or no
// longer used.
type Network struct {
	handle *torch.Tensor
	run    *torch.Operator
}

// Build makes a network of the steps that f writes down, of Float32 or BFloat16. The layers' own tensors are copied.
// BFloat16 is an error where the processor does not multiply it.
func Build(dtype torch.DType, f func(b *Builder)) (*Network, error) {
	if err := oplib.CPU(); err != nil {
		return nil, err
	}
	n := &Network{run: torch.NewOperator("spml::frozen", "")}
	b := &Builder{plain: map[*torch.Tensor]int{}, read: map[*torch.Tensor]bool{}}
	err := torch.Try(func() {
		torch.Scope(func(a *torch.Arena) {
			torch.NoGrad(func() {
				if f(b); b.err != nil {
					return
				}
				n.handle = torch.Call("spml::freeze", b.constants, b.steps, b.numbers, dtype)[0].(*torch.Tensor)
				a.Keep(n.handle)
			})
		})
	})
	if err = errors.Join(b.err, err); err != nil {
		return nil, err
	}
	return n, nil
}

// Run computes a value of images [B, 3, H, W] of any strides: [B, h, w, C]. table [N, C] belongs to networks with
// Tokens. threads 0 are those of an operation on this OS thread. It panics with *torch.Error where they do not fit.
func (n *Network) Run(images, table *torch.Tensor, v Value, threads int) *torch.Tensor {
	c := n.run.Begin()
	c.Tensor(n.handle)
	c.Tensor(images)
	c.Tensor(table)
	c.Int(v.id)
	c.Int(threads)
	return c.One()
}

// Free lets go of the weights.
func (n *Network) Free() { n.handle.Free() }
