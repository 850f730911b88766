package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gospml/gospml/torch"
)

// Scale says what the integers q of 0 to 255 of an activation stand for: (q - Zero)·Scale. A Scale of 0 is that of an
// activation of floats.
type Scale struct {
	Scale float64 `json:"scale"`
	Zero  int     `json:"zero"`
}

// Int8 is what makes a network one of int8, beside its weights.
type Int8 struct {
	// Scales of the network's values: of the images first, then of each value in order. Those that nobody needs are 0.
	Scales []Scale
	// Shifts are added to the biases of these steps: what rounding the weights takes from an output's mean.
	Shifts map[int][]float32
}

// ErrInt8 is wrapped where scales are not those of a network.
var ErrInt8 = errors.New("the int8 form is that of another network")

// kinds says how values are computed in int8.
type kinds struct {
	whole  []bool // values of integers
	copied []bool // values of floats of which there are integers too, for convolutions
}

// kindsOf chooses. A network without normalisation of its own is of integers from the images to what its mean is taken
// of; what comes from a mean, or from one token alone, stays floats. In a network with normalisation the stream that
// branches are added to stays floats too, and the convolutions (linear layers) that read floats get integers of them.
func kindsOf(steps []Step) kinds {
	values := valuesOf(steps)
	k := kinds{make([]bool, values), make([]bool, values)}
	one, free := make([]bool, values), slices.Repeat([]bool{true}, values)
	normed := slices.ContainsFunc(steps, func(s Step) bool { return s.Op == OpNorm })
	for _, s := range steps {
		one[s.Out] = one[s.Out] || one[s.In] && s.Op != OpToken || s.Op == OpMean || s.Op == OpTake
		switch s.Op {
		case OpConv:
			k.whole[s.In] = true
			free[s.Out] = free[s.Out] && !(normed && s.Add >= 0)
		case OpMax:
			k.whole[s.In] = true
		case OpDepthwise:
			k.whole[s.In] = true
			free[s.In] = free[s.In] && !normed
		case OpMean, OpToken:
			free[s.Out] = false
		default:
			free[s.In], free[s.Out] = false, false
		}
		if s.Add >= 0 {
			k.whole[s.Add] = true
			free[s.Add] = free[s.Add] && s.Op == OpConv && !normed
		}
	}
	for v := range values {
		k.whole[v] = k.whole[v] && free[v] && !one[v]
	}
	// A pool gives the integers that it takes; from floats only a convolution makes integers.
	for changed := true; changed; {
		changed = false
		set := func(v int, whole bool) { changed, k.whole[v] = changed || k.whole[v] != whole, whole }
		for _, s := range steps {
			switch {
			case s.Op == OpMax && k.whole[s.In] && !k.whole[s.Out]:
				set(s.Out, free[s.Out])
				set(s.In, free[s.Out])
			case s.Op == OpMax && !k.whole[s.In], s.Op == OpDepthwise && !k.whole[s.In], s.Op == OpConv && one[s.In]:
				set(s.Out, false)
			}
		}
	}
	for _, s := range steps {
		if s.Op == OpConv && !k.whole[s.In] && !one[s.In] {
			k.copied[s.In] = true
		}
	}
	return k
}

// valuesOf is how many activations there are, the images among them.
func valuesOf(steps []Step) int {
	n := 1
	for _, s := range steps {
		n = max(n, s.Out+1)
	}
	return n
}

// integers says whether a step multiplies integers.
func (k *kinds) integers(s Step) bool {
	return (s.Op == OpConv || s.Op == OpDepthwise) && (k.whole[s.In] || s.Op == OpConv && k.copied[s.In])
}

// scaled are weights as integers of -127 to 127 in floats, and the scale of each output channel.
func scaled(w *torch.Tensor) (q, scales *torch.Tensor) {
	n := w.Size(0)
	most := torch.ToSlice[float32](w.Abs().Reshape(n, -1).Amax([]int{1}, false))
	for i, v := range most {
		if most[i] = v / 127; most[i] == 0 {
			most[i] = 1
		}
	}
	shape := append([]int{n}, slices.Repeat([]int{1}, w.Dim()-1)...)
	return w.Div(torch.FromSlice(most, shape...)).Round().Clamp(-127, 127), torch.FromSlice(most, n)
}

// form is a network in int8: steps whose weights are integers, with the scales of what they multiply.
type form struct {
	steps   []Step
	weights []*torch.Tensor // the scales of a step's output channels; nil where its weights are floats
	scales  []float64       // of activations; 0 where they are floats
	zeros   []int
}

func (f *form) put(s Step, weights *torch.Tensor) {
	f.steps, f.weights = append(f.steps, s), append(f.weights, weights)
}

// scale gives an activation the scale that calibration found for an activation of q.
func (f *form) scale(activation int, q *Int8, from int) error {
	s := q.Scales[from]
	if !(s.Scale > 0) || s.Zero < 0 || s.Zero > 255 {
		return fmt.Errorf("%w: activation %d has the scale %v and the zero %d", ErrInt8, from, s.Scale, s.Zero)
	}
	f.scales[activation], f.zeros[activation] = s.Scale, s.Zero
	return nil
}

// formOf writes steps anew for integers.
func formOf(steps []Step, q *Int8) (*form, error) {
	values, k := valuesOf(steps), kindsOf(steps)
	if len(q.Scales) != values {
		return nil, fmt.Errorf("%w: %d scales for %d activations", ErrInt8, len(q.Scales), values)
	}
	f := &form{scales: make([]float64, values), zeros: make([]int, values)}
	channels := make([]int, values)
	for _, s := range steps {
		channels[s.Out] = s.Channels
	}
	for v := range values {
		if !k.whole[v] {
			continue
		}
		if err := f.scale(v, q, v); err != nil {
			return nil, err
		}
	}
	weights, copies := map[*torch.Tensor][2]*torch.Tensor{}, map[int]int{}
	for i, s := range steps {
		if !k.integers(s) {
			f.put(s, nil)
			continue
		}
		if !k.whole[s.In] {
			if copies[s.In] == 0 {
				id := len(f.scales)
				f.scales, f.zeros = append(f.scales, 0), append(f.zeros, 0)
				if err := f.scale(id, q, s.In); err != nil {
					return nil, err
				}
				copies[s.In] = id
				f.put(from(opQuantize, Value{s.In, channels[s.In]}, Value{id, channels[s.In]}), nil)
			}
			s.In = copies[s.In]
		}
		w, ok := weights[s.Weight]
		if !ok {
			w[0], w[1] = scaled(s.Weight.Detach().ToDType(torch.Float32))
			weights[s.Weight] = w
		}
		s.Weight = w[0]
		if shift := q.Shifts[i]; shift != nil {
			if len(shift) != s.Count {
				return nil, fmt.Errorf("%w: step %d has %d shifts for %d channels", ErrInt8, i, len(shift), s.Count)
			}
			t := torch.FromSlice(shift, s.Count)
			if s.Bias != nil {
				t = t.Add(s.Bias.Detach().ToDType(torch.Float32))
			}
			s.Bias = t
		}
		f.put(s, w[1])
	}
	return f, nil
}

// packed is the handle of the network.
func (f *form) packed() *torch.Tensor {
	p := pack(f.steps)
	weights := make([]int, len(f.weights))
	for i, t := range f.weights {
		weights[i] = p.constant(t)
	}
	made := torch.Call("spml::freeze_int8", p.constants, p.steps, p.numbers, f.scales, f.zeros, weights)
	return made[0].(*torch.Tensor)
}

// BuildInt8 is Build of a network whose convolutions and linear layers multiply integers of 8 bits, as calibration
// found them for the same steps. It is an error where the processor does not multiply them.
func BuildInt8(q *Int8, f func(b *Builder)) (*Network, error) {
	return build(f, func(steps []Step, _ *torch.Arena) (*torch.Tensor, error) {
		form, err := formOf(steps, q)
		if err != nil {
			return nil, err
		}
		return form.packed(), nil
	})
}
