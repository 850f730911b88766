package graph

import (
	"errors"
	"math"
	"slices"

	"github.com/gospml/gospml/torch"
)

// bins are those of a histogram, from -reach to reach.
const bins = 8192

// spread is what calibration keeps of an activation.
type spread struct {
	counts   []int64
	reach    float64   // a power of two above every number
	low, top float64   // 0 is between them
	sums     []float64 // of each channel
	pixels   int64
}

// take counts the numbers of pixels; it is false where one is not finite.
func (s *spread) take(x []float32, channels int) bool {
	low, top := float32(s.low), float32(s.top)
	for _, v := range x {
		if !(math.Abs(float64(v)) <= math.MaxFloat32) {
			return false
		}
		low, top = min(low, v), max(top, v)
	}
	s.low, s.top = float64(low), float64(top)
	s.widen(max(-s.low, s.top))
	by, half := float32(bins/2/s.reach), float32(bins/2)
	for _, v := range x {
		s.counts[min(max(int(v*by+half), 0), bins-1)]++
	}
	if s.sums == nil {
		s.sums = make([]float64, channels)
	}
	for at := 0; at < len(x); at += channels {
		for c, v := range x[at : at+channels] {
			s.sums[c] += float64(v)
		}
	}
	s.pixels += int64(len(x) / channels)
	return true
}

// widen makes the reach hold a number; counts move to the bins that hold theirs.
func (s *spread) widen(most float64) {
	if s.counts == nil {
		s.counts, s.reach = make([]int64, bins), math.Ldexp(1, -100)
		if most > 0 {
			s.reach = math.Ldexp(1, math.Ilogb(most)+1)
		}
	}
	for s.reach <= most {
		half := make([]int64, bins)
		for i, n := range s.counts {
			half[bins/4+i/2] += n
		}
		s.counts, s.reach = half, 2*s.reach
	}
}

// loss is the squared error of all numbers when integers reach from low to high: of rounding within, of clipping
// beyond.
func (s *spread) loss(low, high float64) float64 {
	step := (high - low) / 255
	round, width := step*step/12, 2*s.reach/bins
	total := 0.0
	for i, n := range s.counts {
		if n == 0 {
			continue
		}
		x := (float64(i)+0.5)*width - s.reach
		d := max(low-x, x-high, 0)
		total += float64(n) * (d*d + round)
	}
	return total
}

// scale has the bounds with the least loss: the ends of what was seen, or nearer where that is better on the whole.
func (s *spread) scale() Scale {
	low, high := s.low, s.top
	if high <= low {
		return Scale{1, 0}
	}
	best := s.loss(low, high)
	for range 2 {
		for f := 0.98; f > 0.1; f -= 0.02 {
			if l := s.loss(low, s.top*f); s.top > 0 && l < best {
				best, high = l, s.top*f
			}
		}
		for f := 0.98; f > 0.1; f -= 0.02 {
			if l := s.loss(s.low*f, high); s.low < 0 && l < best {
				best, low = l, s.low*f
			}
		}
	}
	step := (high - low) / 255
	return Scale{step, int(math.Round(-low / step))}
}

// ErrNumbers is wrapped where an activation is not finite on the calibration's photos.
var ErrNumbers = errors.New("an activation is not finite")

// Calibrator sees what a network computes for some images, and finds the scales of its int8 form.
type Calibrator struct {
	steps []Step
	own   []*torch.Tensor // the steps' weights
	net   *Network
	kinds kinds
	seen  []spread // of values; the images first
}

// NewCalibrator builds the network in float32.
func NewCalibrator(f func(b *Builder)) (*Calibrator, error) {
	c := &Calibrator{}
	var err error
	c.net, err = build(f, func(steps []Step, a *torch.Arena) (*torch.Tensor, error) {
		c.steps, c.kinds = slices.Clone(steps), kindsOf(steps)
		c.seen = make([]spread, valuesOf(steps))
		for i, s := range c.steps {
			if c.kinds.integers(s) {
				w := s.Weight.Detach().ToDType(torch.Float32)
				a.Keep(w)
				c.steps[i].Weight, c.own = w, append(c.own, w)
			}
		}
		return packed(torch.Float32, steps), nil
	})
	return c, err
}

// See takes what the network computes for one image [1, 3, H, W].
func (c *Calibrator) See(image, table *torch.Tensor, threads int) (err error) {
	torch.Scope(func(*torch.Arena) {
		all := torch.Call("spml::frozen_all", c.net.handle, image, table, threads)
		values, shapes := torch.ToSlice[float32](all[0].(*torch.Tensor)), torch.ToSlice[int64](all[1].(*torch.Tensor))
		take := func(v int, x []float32, channels int) {
			if (c.kinds.whole[v] || c.kinds.copied[v]) && !c.seen[v].take(x, channels) {
				err = ErrNumbers
			}
		}
		take(0, torch.ToSlice[float32](image.Permute(0, 2, 3, 1).Contiguous()), image.Size(1))
		for v := 1; v < len(c.seen); v++ {
			s := shapes[3*v-3 : 3*v]
			n := int(s[0] * s[1] * s[2])
			take(v, values[:n], int(s[2]))
			values = values[n:]
		}
	})
	return err
}

// Int8 is what was found.
func (c *Calibrator) Int8() *Int8 {
	q := &Int8{Scales: make([]Scale, len(c.seen)), Shifts: map[int][]float32{}}
	for v := range c.seen {
		if c.kinds.whole[v] || c.kinds.copied[v] {
			q.Scales[v] = c.seen[v].scale()
		}
	}
	for _, s := range c.steps {
		if s.Op == OpMax && c.kinds.whole[s.In] {
			q.Scales[s.Out] = q.Scales[s.In]
		}
	}
	torch.Scope(func(*torch.Arena) {
		for i, s := range c.steps {
			if c.kinds.integers(s) {
				q.Shifts[i] = c.shift(s)
			}
		}
	})
	return q
}

// shift is what rounding the weights takes from the mean of each output, by the means of the input's channels.
func (c *Calibrator) shift(s Step) []float32 {
	seen := &c.seen[s.In]
	means := slices.Clone(seen.sums)
	for i := range means {
		means[i] /= float64(max(seen.pixels, 1))
	}
	w := s.Weight
	q, by := scaled(w)
	lost := w.Sub(byRow(q, by)).Reshape(s.Count, -1, s.KernelH*s.KernelW).ToDType(torch.Float64)
	lost = lost.SumDim([]int{2}, false) // [O, I]
	m := torch.FromSlice(means, len(means))
	if s.Op == OpDepthwise {
		return torch.ToSlice[float32](lost.View(-1).Mul(m).ToDType(torch.Float32))
	}
	return torch.ToSlice[float32](lost.Matmul(m).ToDType(torch.Float32))
}

// Free lets go of the network.
func (c *Calibrator) Free() {
	c.net.Free()
	for _, t := range c.own {
		t.Free()
	}
}

// Network is what Calibrator runs, in float32.
func (c *Calibrator) Network() *Network { return c.net }
