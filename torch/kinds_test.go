package torch_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

func call(name string, arguments ...any) *torch.Tensor {
	return torch.Call(name, arguments...)[0].(*torch.Tensor)
}

// The values that 8-bit floats can hold follow from their layout: 4 exponent bits, 3 of mantissa, largest 448; and 5, 2, 57344.
func TestFloat8(t *testing.T) {
	torchtest.NoLeaks(t)
	x := torch.FromSlice([]float32{0, 1, 1.0625, 1.125, -3.3, 400, 0.001953125})
	for d, want := range map[torch.DType][]float32{
		torch.Float8E4M3: {0, 1, 1, 1.125, -3.25, 384, 0.001953125},
		torch.Float8E5M2: {0, 1, 1, 1, -3.5, 384, 0.001953125},
	} {
		y := x.ToDType(d)
		require.Equal(t, d, y.DType())
		require.Equal(t, 1, d.Size())
		require.Equal(t, want, torch.ToSlice[float32](y.ToDType(torch.Float32)), d.String())
	}
	require.ErrorIs(t, torch.Try(func() { x.ToDType(torch.Float8E4M3).Add(x.ToDType(torch.Float8E4M3)) }), torch.ErrNoKernel)
}

// The transform equals its definition, backward and forth, and its gradient its adjoint.
func TestFFT(t *testing.T) {
	torchtest.NoLeaks(t)
	x := []float64{1, -2, 3.5, 0.25, -1, 2}
	n := len(x)
	v := torch.FromSlice(x)
	got := torch.ToSlice[float64](call("aten::view_as_real", call("aten::fft_fft", v)).Flatten(0, -1))
	for k := range n {
		var want complex128
		for j := range n {
			want += complex(x[j], 0) * cmplx.Exp(complex(0, -2*math.Pi*float64(j*k)/float64(n)))
		}
		require.InDelta(t, real(want), got[2*k], 1e-12)
		require.InDelta(t, imag(want), got[2*k+1], 1e-12)
	}
	require.Equal(t, []int{4}, call("aten::fft_rfft", v).Shape())
	require.InDeltaSlice(t, x, torch.ToSlice[float64](call("aten::fft_irfft", call("aten::fft_rfft", v), n)), 1e-12)
	leaf := torch.FromSlice(x).SetRequiresGrad(true)
	torchtest.Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor {
		return call("aten::view_as_real", call("aten::fft_rfft", in[0]))
	}, []*torch.Tensor{leaf})
}

func TestComplex(t *testing.T) {
	torchtest.NoLeaks(t)
	a := call("aten::view_as_complex", torch.FromSlice([]float64{1, 2, 3, -1}).Reshape(2, 2)) // 1+2i, 3-i
	require.Equal(t, torch.Complex128, a.DType())
	require.Equal(t, []float64{-3, 4, 8, -6}, torch.ToSlice[float64](call("aten::view_as_real", a.Square()).Flatten(0, -1)))
	require.InDeltaSlice(t, []float64{math.Sqrt(5), math.Sqrt(10)}, torch.ToSlice[float64](a.Abs()), 1e-15)
	require.Equal(t, []float64{1, -2, 3, 1}, torch.ToSlice[float64](call("aten::view_as_real", call("aten::resolve_conj", call("aten::conj", a))).Flatten(0, -1)))
}

// A sparse matrix times a dense one, and its gradient, equal the dense product's.
func TestSparse(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		dense := torch.FromSlice([]float64{0, 2, 0, -1, 0, 3}).Reshape(2, 3)
		at, values := torch.FromSlice([]int64{0, 1, 1, 1, 0, 2}).Reshape(2, 3), torch.FromSlice([]float64{2, -1, 3})
		s := call("aten::sparse_coo_tensor.indices_size", at, values, []int{2, 3})
		require.True(t, dense.Equal(call("aten::to_dense", s)))
		y := torch.FromSlice([]float64{1, 2, 3, 4, 5, 6}).Reshape(3, 2).SetRequiresGrad(true)
		p := call("aten::_sparse_mm", s, y)
		require.True(t, dense.Mm(y).Equal(p))
		p.Sum().Backward()
		require.Equal(t, []float64{-1, -1, 2, 2, 3, 3}, torch.ToSlice[float64](y.Grad().Flatten(0, -1)))
		require.True(t, dense.Equal(call("aten::to_dense", call("aten::to_sparse", dense))))
	})
}

// Quantised values are round(x/scale) + zero point, and back.
func TestQuantised(t *testing.T) {
	torchtest.NoLeaks(t)
	x := torch.FromSlice([]float32{-1, -0.26, 0, 0.24, 3, 100})
	q := call("aten::quantize_per_tensor", x, 0.25, 10, torch.QUInt8)
	require.Equal(t, torch.QUInt8, q.DType())
	require.Equal(t, []uint8{6, 9, 10, 11, 22, 255}, torch.ToSlice[uint8](call("aten::int_repr", q)))
	require.Equal(t, []float32{-1, -0.25, 0, 0.25, 3, 61.25}, torch.ToSlice[float32](call("aten::dequantize.self", q)))
}

// Channels-last data stays so through a convolution and gives the same numbers.
func TestChannelsLast(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.ManualSeed(1)
	x, w := torch.Randn(torch.S(2, 3, 6, 5)), torch.Randn(torch.S(4, 3, 3, 3))
	conv := func(x, w *torch.Tensor) *torch.Tensor {
		return torch.Conv2d(x, w, nil, []int{1, 1}, []int{1, 1}, []int{1, 1}, 1)
	}
	last := x.ContiguousFormat(torch.ChannelsLast)
	require.True(t, last.IsChannelsLast())
	require.Equal(t, []int{90, 1, 15, 3}, last.Strides())
	y := conv(last, w.ContiguousFormat(torch.ChannelsLast))
	require.True(t, y.IsChannelsLast())
	require.True(t, conv(x, w).AllClose(y, 1e-4, 1e-5, false))
}

func TestRecurrent(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		// One step of an LSTM by hand: gates i, f, g, o in rows of the weights.
		x, h, c := torch.FromSlice([]float64{0.5, -1}).Reshape(1, 1, 2), torch.FromSlice([]float64{0.2}).Reshape(1, 1, 1), torch.FromSlice([]float64{-0.3}).Reshape(1, 1, 1)
		wi := torch.FromSlice([]float64{0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8}).Reshape(4, 2)
		wh := torch.FromSlice([]float64{0.3, -0.2, 0.9, 0.1}).Reshape(4, 1)
		b := torch.FromSlice([]float64{0.01, 0.02, 0.03, 0.04})
		out := torch.Call("aten::lstm.input", x, []*torch.Tensor{h, c}, []*torch.Tensor{wi, wh, b, b.ZerosLike()}, true, 1, 0.0, false, false, false)
		g := make([]float64, 4)
		wiv, whv, bv := torch.ToSlice[float64](wi.Flatten(0, -1)), torch.ToSlice[float64](wh.Flatten(0, -1)), torch.ToSlice[float64](b)
		for k := range g {
			g[k] = wiv[2*k]*0.5 - wiv[2*k+1] + whv[k]*0.2 + bv[k]
		}
		s := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
		cell := s(g[1])*-0.3 + s(g[0])*math.Tanh(g[2])
		require.InDelta(t, s(g[3])*math.Tanh(cell), out[0].(*torch.Tensor).Item(), 1e-14)
		require.InDelta(t, cell, out[2].(*torch.Tensor).Item(), 1e-14)
	})
}
