// Package graph builds networks for inference on a CPU: lists of steps with their weights packed for the processor,
// which one call runs from images to logits (spml/csrc/frozen.h). Activations are channels-last; tokens are pixels of
// one row.
package graph

import (
	"errors"
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ErrForm is wrapped where a network has a layer that no step computes.
var ErrForm = errors.New("no frozen form")

// Op is what a step does.
type Op int

// Operations, as spml/csrc/frozen.h numbers them.
const (
	OpConv Op = iota
	OpDepthwise
	OpMax
	OpMean
	OpNorm
	OpAttention
	OpToken
	OpTake
	opQuantize // of networks in int8: floats to integers
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

// NoAddend stands for "nothing is added", Table for the rows of the table that comes with the images.
const (
	NoAddend = -1
	Table    = -2
)

// Value is an activation: what a step computes.
type Value struct{ id, channels int }

// Channels is how many a pixel has.
func (v Value) Channels() int { return v.channels }

// ID is the number that steps know the value by.
func (v Value) ID() int { return v.id }

// Builder collects steps. A layer that has none is an error of Describe and Build, which wraps ErrForm.
type Builder struct {
	read   map[*torch.Tensor]bool
	steps  []Step
	values int
	err    error
}

// Step is an operation on activations, which are known by numbers; 0 are the images. Activations are pixels of
// channels;
// tokens are pixels of one row.
type Step struct {
	Op      Op
	In, Out int
	// Add is added before the activation, or NoAddend; with Table a row of the table for each pixel. Of OpAttention the
	// keys and values.
	Add          int
	Weight, Bias *torch.Tensor // [out, in], [out, in, h, w] or [C]; [out]; normalisations and factors are part of them
	KernelH      int
	KernelW      int
	Stride, Pad  int
	Act          Act
	Channel      int     // where in Out's channels the step writes
	Channels     int     // of Out
	Count        int     // that the step writes
	Ceil         bool    // OpMax: windows beyond the border count
	Behind       bool    // OpConv: the pixels lie behind a first one, which OpToken writes: the first row of the table
	Heads        int     // OpAttention
	Apart        bool    // OpAttention: keys and values are an activation of their own
	Eps          float64 // OpNorm
	Scale        float64 // OpAttention
}

func (b *Builder) add(s Step) { b.steps = append(b.steps, s) }

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

// weights are weights and bias with the normalisation and the factor after them.
func (b *Builder) weights(weight, bias *torch.Tensor, t Then) (w, c *torch.Tensor) {
	b.Read(weight, bias, t.Scale)
	if n := t.Norm; n != nil {
		b.Read(n.Weight, n.Bias, n.RunningMean, n.RunningVar)
	}
	if t.Norm == nil && t.Scale == nil {
		return weight, bias
	}
	return folded(weight, bias, t)
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
	s := followed(from(OpConv, x, out), then)
	s.Weight, s.Bias = b.weights(c.Weight, c.Bias, then)
	s.Channel, s.Count = channel, c.OutChannels
	s.KernelH, s.KernelW, s.Stride, s.Pad = c.KernelSize[0], c.KernelSize[1], c.Stride[0], c.Padding[0]
	if depthwise {
		s.Op = OpDepthwise
	}
	b.add(s)
	return out
}

// Linear maps the channels of each pixel.
func (b *Builder) Linear(x Value, weight, bias *torch.Tensor, then Then) Value {
	out := b.value(weight.Size(0))
	s := followed(from(OpConv, x, out), then)
	s.Weight, s.Bias = b.weights(weight, bias, then)
	b.add(s)
	return out
}

// Tokens are the pixels of a convolution, each with its row of the table that comes with the images. Where there is a
// class token they lie behind it, and it is the table's first row.
func (b *Builder) Tokens(x Value, c *nn.Conv2d, class bool) Value {
	out := b.value(c.OutChannels)
	if b.ConvInto(out, 0, x, c, Then{}); b.err != nil {
		return out
	}
	conv := &b.steps[len(b.steps)-1]
	if conv.Add, conv.Behind = Table, class; class {
		b.add(from(OpToken, x, out))
	}
	return out
}

// Same is one pixel of these numbers [C] for each image; x are any activations of C channels.
func (b *Builder) Same(x Value, numbers *torch.Tensor) Value {
	first := b.First(x)
	out := b.value(x.channels)
	s := from(OpDepthwise, first, out)
	s.Weight, s.Bias = torch.Zeros(torch.S(x.channels, 1, 1, 1)), numbers
	b.add(s)
	return out
}

func square(n [2]int) bool { return n[0] == n[1] }

// from is a step with neither constants nor an addend.
func from(op Op, x, out Value) Step {
	return Step{
		Op: op, In: x.id, Out: out.id, Add: NoAddend, KernelH: 1, KernelW: 1, Stride: 1,
		Channels: out.channels, Count: out.channels,
	}
}

// followed fills in what follows a step's sums.
func followed(s Step, t Then) Step {
	if t.Add != nil {
		s.Add = t.Add.id
	}
	s.Act = t.Act
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
	s := from(OpMax, x, out)
	s.KernelH, s.KernelW, s.Stride, s.Pad = p.KernelSize[0], p.KernelSize[1], p.Stride[0], p.Padding[0]
	s.Ceil = p.CeilMode
	b.add(s)
	return out
}

// Channels makes room for steps that write a part each; see ConvInto.
func (b *Builder) Channels(n int) Value { return b.value(n) }

// Mean is the mean over all pixels.
func (b *Builder) Mean(x Value) Value { return b.simple(OpMean, x) }

// First is the first token alone.
func (b *Builder) First(x Value) Value { return b.simple(OpTake, x) }

func (b *Builder) simple(op Op, x Value) Value {
	out := b.value(x.channels)
	b.add(from(op, x, out))
	return out
}

// Norm normalises the channels of each pixel.
func (b *Builder) Norm(x Value, gain, bias *torch.Tensor, eps float64) Value {
	if gain == nil {
		gain = torch.Ones(torch.S(x.channels))
	}
	b.Read(gain, bias)
	out := b.value(x.channels)
	s := from(OpNorm, x, out)
	s.Weight, s.Bias, s.Eps = gain, bias, eps
	b.add(s)
	return out
}

// Attention is softmax(q·kᵀ·scale)·v of each head. qkv has queries, keys and values behind each other.
func (b *Builder) Attention(qkv Value, heads int, scale float64) Value {
	return b.attention(qkv, qkv, qkv.channels/3, heads, false, scale)
}

// Attend is Attention of queries of their own over keys and values that lie behind each other.
func (b *Builder) Attend(q, kv Value, heads int, scale float64) Value {
	return b.attention(q, kv, q.channels, heads, true, scale)
}

func (b *Builder) attention(q, kv Value, width, heads int, apart bool, scale float64) Value {
	out := b.value(width)
	s := from(OpAttention, q, out)
	s.Add, s.Heads, s.Apart, s.Scale = kv.id, heads, apart, scale
	b.add(s)
	return out
}

// Refuse says what has no step.
func (b *Builder) Refuse(format string, arguments ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w for "+format, append([]any{ErrForm}, arguments...)...)
	}
}

// Description is a network written down: its steps and the activations that can be asked for.
type Description struct {
	Steps          []Step
	Features, Maps Value
	Logits         Value // of no channels where the network has no head of its own
	Prefix         int   // tokens before those of Maps
	// Table is what comes with images of this size, [N, D]; nil but for networks with Tokens.
	Table func(height, width int) *torch.Tensor
}

// Describe writes down what f does. Weights that are not a layer's own belong to the caller's scope.
func Describe(f func(b *Builder)) ([]Step, error) {
	b := &Builder{read: map[*torch.Tensor]bool{}}
	err := torch.Try(func() { torch.NoGrad(func() { f(b) }) })
	return b.steps, errors.Join(b.err, err)
}
