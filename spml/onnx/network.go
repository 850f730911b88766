package onnx

import (
	"slices"

	"github.com/gospml/gospml/spml/internal/graph"
)

// kind is how an activation lies.
type kind int

const (
	pixels kind = iota // [B, C, h, w]
	tokens             // [B, N, C]
	rows               // [B, C]
)

// activation is a value of a network: where the pixels of an image are tokens, h × w of them are the image's.
type activation struct {
	name     string
	kind     kind
	channels int
	h, w     int
}

// translator writes the steps of a network.
type translator struct {
	*writer
	table  func(height, width int) string // nil without one
	values map[int]activation
	parts  map[int][]string // of an activation that several steps write, in the order of its channels
}

// network writes the steps that lead to a value, from images [B, 3, h, w] on.
func (w *writer) network(d *graph.Description, images string, h, wd int, wanted graph.Value) activation {
	t := &translator{writer: w, parts: map[int][]string{}}
	t.values = map[int]activation{0: {images, pixels, 3, h, wd}}
	if d.Table != nil {
		t.table = func(int, int) string { return w.constant(d.Table(h, wd)) }
	}
	for _, s := range leading(d.Steps, wanted.ID()) {
		if w.pending == nil {
			t.step(s)
		}
	}
	return t.values[wanted.ID()]
}

// leading are the steps that an activation needs.
func leading(steps []graph.Step, wanted int) []graph.Step {
	needed := map[int]bool{wanted: true}
	var out []graph.Step
	for _, s := range slices.Backward(steps) {
		if needed[s.Out] {
			needed[s.In] = true
			if s.Add >= 0 {
				needed[s.Add] = true
			}
			out = append(out, s)
		}
	}
	slices.Reverse(out)
	return out
}

func (t *translator) step(s graph.Step) {
	in := t.values[s.In]
	var out activation
	switch s.Op {
	case graph.OpConv, graph.OpDepthwise:
		if out = t.weighted(s, in); s.Count < s.Channels {
			t.parts[s.Out] = append(t.parts[s.Out], out.name)
			if s.Channel+s.Count < s.Channels {
				return // the others follow
			}
			out.name, out.channels = t.node("Concat", t.parts[s.Out], "axis", 1), s.Channels
		}
	case graph.OpToken:
		return // the convolution has left its place
	case graph.OpMax:
		out = in
		out.h, out.w = pooled(in.h, s), pooled(in.w, s)
		ceil := 0
		if s.Ceil {
			ceil = 1
		}
		out.name = t.node("MaxPool", []string{in.name}, "kernel_shape", []int{s.KernelH, s.KernelW},
			"strides", []int{s.Stride, s.Stride}, "pads", []int{s.Pad, s.Pad, s.Pad, s.Pad}, "ceil_mode", ceil)
	case graph.OpMean:
		out = activation{t.mean(in), rows, in.channels, 1, 1}
	case graph.OpNorm:
		out = in
		if in.kind == pixels {
			out.name = t.turn(t.norm(t.turn(in.name, 0, 2, 3, 1), s.Weight, s.Bias, s.Eps), 0, 3, 1, 2)
		} else {
			out.name = t.norm(in.name, s.Weight, s.Bias, s.Eps)
		}
	case graph.OpAttention:
		out = t.attend(s, in, t.values[s.Add])
	case graph.OpTake:
		if in.kind != tokens {
			t.refuse("the first pixel of a map")
			return
		}
		out = activation{t.slice(in.name, 1, 0, 1), tokens, in.channels, 1, 1}
	default:
		t.refuse("the operation %d", s.Op)
	}
	t.values[s.Out] = out
}

// pooled is the number of windows of a pool, as spml/csrc/frozen.cpp counts them.
func pooled(n int, s graph.Step) int {
	more := 0
	if s.Ceil {
		more = s.Stride - 1
	}
	out := (n+2*s.Pad-s.KernelH+more)/s.Stride + 1
	if s.Ceil && (out-1)*s.Stride >= n+s.Pad {
		out--
	}
	return out
}

// mean is that of all pixels.
func (t *translator) mean(in activation) string {
	if in.kind == pixels {
		return t.node("Flatten", []string{t.node("GlobalAveragePool", []string{in.name})}, "axis", 1)
	}
	return t.node("ReduceMean", []string{in.name}, "axes", []int{1}, "keepdims", 0)
}

// weighted is a convolution, or a linear layer, with what is added to it and its activation.
func (t *translator) weighted(s graph.Step, in activation) activation {
	out := activation{kind: in.kind, channels: s.Count, h: in.h, w: in.w}
	switch {
	case in.kind == pixels:
		groups := 1
		if s.Op == graph.OpDepthwise {
			groups = s.Count
		}
		weight := s.Weight
		if weight.Dim() == 2 { // a linear layer on each pixel
			weight = weight.Detach().View(weight.Size(0), weight.Size(1), 1, 1)
		}
		inputs := []string{in.name, t.constant(weight)}
		if s.Bias != nil {
			inputs = append(inputs, t.constant(s.Bias))
		}
		out.name = t.node("Conv", inputs, "kernel_shape", []int{s.KernelH, s.KernelW}, "strides", []int{s.Stride, s.Stride},
			"pads", []int{s.Pad, s.Pad, s.Pad, s.Pad}, "group", groups)
		out.h, out.w = (in.h+2*s.Pad-s.KernelH)/s.Stride+1, (in.w+2*s.Pad-s.KernelW)/s.Stride+1
	case s.KernelH != 1 || s.KernelW != 1 || s.Stride != 1 || s.Pad != 0:
		t.refuse("a convolution over tokens")
	case s.Op == graph.OpDepthwise: // a factor of each channel
		out.name = t.plus(t.times(in.name, t.constant(s.Weight.Detach().View(-1))), t.constant(s.Bias))
	default:
		out.name = t.linear(in.name, s.Weight, s.Bias)
	}
	switch {
	case s.Add == graph.Table:
		out = t.placed(s, out)
	case s.Add != graph.NoAddend:
		out.name = t.plus(out.name, t.values[s.Add].name)
	}
	out.name = t.act(out.name, s.Act)
	return out
}

// placed makes pixels tokens with their rows of the table; the first one, where there is one, is its row alone.
func (t *translator) placed(s graph.Step, x activation) activation {
	x.name = t.turn(t.reshape(x.name, 0, int64(x.channels), -1), 0, 2, 1)
	if s.Behind {
		x.name = t.node("Pad", []string{x.name, t.ints(0, 1, 0, 0, 0, 0), t.number(0)})
	}
	x.name, x.kind = t.plus(x.name, t.table(x.h, x.w)), tokens
	return x
}

// attend is attention of queries to keys and values that lie behind each other, and behind the queries where they are
// one activation.
func (t *translator) attend(s graph.Step, q, kv activation) activation {
	width := s.Channels
	if q.kind != tokens || kv.kind != tokens {
		t.refuse("attention of a map")
		return q
	}
	query := q.name
	n, names := 2, []string(nil)
	if !s.Apart {
		n = 3
	}
	sizes := slices.Repeat([]int64{int64(width)}, n)
	names = t.nodes("Split", []string{kv.name, t.ints(sizes...)}, n, "axis", -1)
	if !s.Apart {
		query = names[0]
	}
	out := q
	out.name, out.channels = t.attention(query, names[n-2], names[n-1], width, s.Heads, s.Scale), width
	return out
}
