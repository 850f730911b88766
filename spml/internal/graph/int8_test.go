package graph

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// every is a network with all that has an int8 form: odd kernels, strides, borders, channels that fill no vector,
// addends, two convolutions into one value, a depthwise convolution of each kind, pools.
func every(g *torch.Generator) func(b *Builder) {
	conv := func(in, out, kernel, stride, pad, groups int) *nn.Conv2d {
		c := nn.NewConv2d(in, out, kernel, nn.Stride(stride), nn.Padding(pad), nn.Groups(groups), nn.Generator(g))
		return c
	}
	first, one := conv(3, 20, 7, 2, 3, 1), conv(20, 35, 1, 1, 0, 1)
	down, short := conv(35, 50, 3, 2, 1, 1), conv(35, 50, 1, 2, 0, 1)
	wide, narrow := conv(50, 70, 1, 1, 0, 1), conv(70, 50, 1, 1, 0, 1)
	dw3, dw3s, dw5 := conv(70, 70, 3, 1, 1, 70), conv(70, 70, 3, 2, 1, 70), conv(70, 70, 5, 1, 2, 70)
	again, left, right := conv(50, 50, 3, 1, 1, 1), conv(50, 17, 1, 1, 0, 1), conv(50, 30, 3, 1, 1, 1)
	last, head := conv(47, 33, 1, 1, 0, 1), nn.NewLinear(33, 5, nn.Generator(g))
	two, unit := [2]int{2, 2}, [2]int{1, 1}
	pool := &nn.MaxPool2d{KernelSize: [2]int{3, 3}, Stride: two, Padding: unit, Dilation: unit}
	return func(b *Builder) {
		x := b.Conv(b.Input(), first, Then{Act: ReLU})
		x = b.MaxPool(x, pool)
		x = b.Conv(x, one, Then{Act: ReLU6})
		s := b.Conv(x, short, Then{})
		x = b.Conv(x, down, Then{Add: &s, Act: ReLU})
		y := b.Conv(x, wide, Then{})
		y = b.Conv(y, dw3, Then{Act: ReLU6})
		y = b.Conv(y, dw5, Then{})
		y = b.Conv(y, narrow, Then{Add: &x})
		y = b.Conv(y, again, Then{Act: GELU})
		out := b.Channels(47)
		b.ConvInto(out, 0, y, left, Then{Act: ReLU})
		b.ConvInto(out, 17, y, right, Then{})
		b.Conv(b.Conv(b.Conv(b.Conv(y, wide, Then{}), dw3s, Then{Act: ReLU}), narrow, Then{}), left, Then{Act: ReLU})
		b.Linear(b.Mean(b.Conv(out, last, Then{Act: ReLU})), head.Weight, head.Bias, Then{})
	}
}

// normed is a network whose stream stays floats: patches with a table, normalisation, linear layers, attention.
func normed(g *torch.Generator) func(b *Builder) {
	patch := nn.NewConv2d(3, 24, 8, nn.Stride(8), nn.Generator(g))
	linear := func(in, out int) *nn.Linear { return nn.NewLinear(in, out, nn.Generator(g)) }
	qkv, proj, up, back, head := linear(24, 72), linear(24, 24), linear(24, 40), linear(40, 24), linear(24, 3)
	gain := nn.Uniform_(torch.Empty(torch.S(24)), 0.5, 1.5, g)
	return func(b *Builder) {
		t := b.Tokens(b.Input(), patch, true)
		n := b.Norm(t, gain, nil, 1e-5)
		y := b.Attention(b.Linear(n, qkv.Weight, qkv.Bias, Then{}), 2, 0.3)
		t = b.Linear(y, proj.Weight, proj.Bias, Then{Add: &t})
		n = b.Norm(t, gain, nil, 1e-5)
		y = b.Linear(n, up.Weight, up.Bias, Then{Act: GELUTanh})
		t = b.Linear(y, back.Weight, back.Bias, Then{Add: &t})
		b.Linear(b.First(t), head.Weight, head.Bias, Then{})
	}
}

// built is an int8 network with the form that it was built of.
type built struct {
	*form
	net                 *Network
	numbers, by, biases [][]float32 // of steps: integers, scales and biases
}

func values(x *torch.Tensor) []float32 {
	if x == nil {
		return nil
	}
	return torch.ToSlice[float32](x.Detach().Contiguous())
}

func buildBoth(t *testing.T, f func(b *Builder), table *torch.Tensor, side int) *built {
	c, err := NewCalibrator(f)
	require.NoError(t, err)
	g := torch.NewGenerator(4)
	for range 3 {
		require.NoError(t, c.See(nn.Normal_(torch.Empty(torch.S(1, 3, side, side)), 0, 1, g), table, 1))
	}
	q := c.Int8()
	n := &built{}
	n.net, err = build(f, func(steps []Step, _ *torch.Arena) (*torch.Tensor, error) {
		if n.form, err = formOf(steps, q); err != nil {
			return nil, err
		}
		for i, s := range n.steps {
			n.numbers, n.biases = append(n.numbers, values(s.Weight)), append(n.biases, values(s.Bias))
			n.by = append(n.by, values(n.weights[i]))
		}
		return n.packed(), nil
	})
	if err != nil && strings.Contains(err.Error(), "no AVX512_VNNI") {
		t.Skip("this processor does not multiply int8, and TestQuantizeRefuses sees that it says so")
	}
	require.NoError(t, err)
	return n
}

// picture is an activation of one image: floats, and the integers they stand for.
type picture struct {
	h, w, c int
	x       []float32
	q       []int
}

// all computes every activation of an image; the image itself is the first.
func (n *built) all(t *testing.T, x, table *torch.Tensor, threads int) []picture {
	got := torch.Call("spml::frozen_all", n.net.handle, x, table, threads)
	values, shapes := torch.ToSlice[float32](got[0].(*torch.Tensor)), torch.ToSlice[int64](got[1].(*torch.Tensor))
	out := []picture{{h: x.Size(2), w: x.Size(3), c: 3, x: torch.ToSlice[float32](x.Permute(0, 2, 3, 1).Contiguous())}}
	for v := 1; v < len(n.scales); v++ {
		s := shapes[3*v-3 : 3*v]
		k := int(s[0] * s[1] * s[2])
		out = append(out, picture{h: int(s[0]), w: int(s[1]), c: int(s[2]), x: values[:k]})
		values = values[k:]
	}
	require.Empty(t, values)
	for v := range out {
		if n.scales[v] == 0 {
			continue
		}
		for _, f := range out[v].x {
			q := min(max(math.RoundToEven(float64(f)/n.scales[v]+float64(n.zeros[v])), 0), 255)
			out[v].q = append(out[v].q, int(q))
		}
	}
	return out
}

// sum is an output of a convolution before its factors: the sum of products of integers.
func (n *built) sum(i int, in *picture, y, x, c int) (sum int64) {
	s, w := &n.steps[i], n.numbers[i]
	channels := in.c
	if s.Op == OpDepthwise {
		channels = 1
	}
	for r := range s.KernelH {
		for k := range s.KernelW {
			iy, ix := y*s.Stride-s.Pad+r, x*s.Stride-s.Pad+k
			if iy < 0 || ix < 0 || iy >= in.h || ix >= in.w {
				continue // the zero point, which stands for 0
			}
			for j := range channels {
				from := j
				if s.Op == OpDepthwise {
					from = c
				}
				q := in.q[(iy*in.w+ix)*in.c+from] - n.zeros[s.In]
				sum += int64(q) * int64(w[((c*channels+j)*s.KernelH+r)*s.KernelW+k])
			}
		}
	}
	return sum
}

func activate(act Act, v float64) float64 {
	switch act {
	case ReLU:
		return max(v, 0)
	case ReLU6:
		return min(max(v, 0), 6)
	case GELU:
		return v / 2 * (1 + math.Erf(v/math.Sqrt2))
	case GELUTanh:
		return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
	}
	return v
}

// verify computes the integer steps once more, each from what the network gave its inputs, in int64 and float64, and
// gives how many integers were compared and how many are one apart.
func (n *built) verify(t *testing.T, all []picture, table []float32) (compared, apart int) {
	for i, s := range n.steps {
		if n.weights[i] == nil {
			continue
		}
		in, out, first := &all[s.In], &all[s.Out], 0
		if s.Behind {
			first = 1
		}
		h, w := (in.h+2*s.Pad-s.KernelH)/s.Stride+1, (in.w+2*s.Pad-s.KernelW)/s.Stride+1
		for pixel := range h * w {
			at := pixel + first
			for c := range s.Count {
				v := float64(n.sum(i, in, pixel/w, pixel%w, c)) * n.scales[s.In] * float64(n.by[i][c])
				if n.biases[i] != nil {
					v += float64(n.biases[i][c])
				}
				switch {
				case s.Add == Table:
					v += float64(table[at*s.Channels+c])
				case s.Add >= 0:
					v += float64(all[s.Add].x[at*all[s.Add].c+c])
				}
				v = activate(s.Act, v)
				to := at*out.c + s.Channel + c
				if out.q == nil {
					require.InDelta(t, v, out.x[to], 2e-5*(1+math.Abs(v)), "step %d", i)
					continue
				}
				want := int(min(max(math.RoundToEven(v/n.scales[s.Out]+float64(n.zeros[s.Out])), 0), 255))
				compared++
				if want != out.q[to] {
					require.InDelta(t, want, out.q[to], 1, "step %d, pixel %d, channel %d", i, pixel, c)
					apart++
				}
			}
		}
	}
	return compared, apart
}

// TestInt8: every integer of every activation is what the sums of integers give, but for a rounding that lies within
// the last bits of a float (at most one number of a thousand, and by one).
func TestInt8(t *testing.T) {
	g := torch.NewGenerator(2)
	table := nn.Normal_(torch.Empty(torch.S(26, 24)), 0, 1, g)
	for name, c := range map[string]struct {
		f     func(b *Builder)
		table *torch.Tensor
		side  int
		least int
	}{"convolutions": {every(g), nil, 61, 20000}, "tokens": {normed(g), table, 40, 1000}} {
		t.Run(name, func(t *testing.T) {
			n := buildBoth(t, c.f, c.table, c.side)
			var rows []float32
			if c.table != nil {
				rows = torch.ToSlice[float32](c.table)
			}
			for _, threads := range []int{1, 3} {
				x := nn.Normal_(torch.Empty(torch.S(1, 3, c.side, c.side)), 0, 1.5, g) // some beyond the ranges
				compared, apart := n.verify(t, n.all(t, x, c.table, threads), rows)
				require.Greater(t, compared, c.least)
				require.LessOrEqual(t, apart, compared/1000)
			}
		})
	}
}

// TestScale: the ends of what was seen where all numbers count, nearer ones where one lies far from the others; the
// integers always have a zero.
func TestScale(t *testing.T) {
	even := make([]float32, 10001)
	for i := range even {
		even[i] = float32(i)/5000 - 0.5
	}
	var s spread
	require.True(t, s.take(even, 1))
	q := s.scale()
	require.InDelta(t, 2.0/255, q.Scale, 1e-3*q.Scale)
	require.Equal(t, 64, q.Zero)
	require.InDelta(t, 0.5, s.sums[0]/float64(s.pixels), 1e-6)

	var f spread
	for range 100 {
		require.True(t, f.take(even, 1))
	}
	require.True(t, f.take([]float32{40}, 1))
	require.Less(t, f.scale().Scale*255, 20.0)
	require.EqualValues(t, 1000101, f.pixels)
	total := int64(0)
	for _, n := range f.counts {
		total += n
	}
	require.EqualValues(t, 1000101, total, "no number is lost where the reach grows")

	var positive, none, dead spread
	require.True(t, positive.take([]float32{1, 2, 3}, 3))
	require.Equal(t, 0, positive.scale().Zero)
	require.False(t, none.take([]float32{1, float32(math.NaN())}, 1))
	require.False(t, none.take([]float32{float32(math.Inf(1))}, 1))
	require.True(t, dead.take(make([]float32, 4), 2))
	require.Equal(t, Scale{1, 0}, dead.scale())
}
