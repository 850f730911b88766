package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// In place, from its result, it gives what libtorch's gives from its input: at the bounds, for NaN, infinities, in bfloat16, for views and twice differentiated.
func TestReLU6Inplace(t *testing.T) {
	inf := float32(math.Inf(1))
	values := []float32{-inf, -1, float32(math.Copysign(0, -1)), 0, 1e-30, 3, 5.9999995, 6, 6.0000005, 7, inf, float32(math.NaN())}
	for _, dtype := range []torch.DType{torch.Float32, torch.Float64, torch.BFloat16} {
		run := func(inplace bool) (y, g []float32) {
			x := torch.FromSlice(values, 3, 4).ToDType(dtype).SetRequiresGrad(true)
			h := x.MulScalar(1)
			part := h.Slice(1, 0, 3, 1) // a view
			z := nn.ReLU6{Inplace: inplace}.Forward(part)
			z.Mul(z).Sum().Backward()
			if inplace {
				require.Equal(t, bits(z), bits(h.Slice(1, 0, 3, 1)), "the input holds the result")
			}
			return torch.ToSlice[float32](z.ToDType(torch.Float32)), torch.ToSlice[float32](x.Grad().ToDType(torch.Float32))
		}
		y, g := run(true)
		wantY, wantG := run(false)
		require.Equal(t, sameFloats(wantY), sameFloats(y), "%v", dtype)
		require.Equal(t, sameFloats(wantG), sameFloats(g), "%v", dtype)
	}
	leaf := torch.FromSlice(values).SetRequiresGrad(true)
	require.ErrorContains(t, torch.Try(func() { nn.ReLU6{Inplace: true}.Forward(leaf) }), "leaf")

	x := torch.FromSlice([]float32{-1, 2, 7}).SetRequiresGrad(true)
	squared := x.Mul(x)
	doubled := squared.MulScalar(2) // keeps nothing of squared
	nn.ReLU6{Inplace: true}.Forward(squared)
	squared.Sum().Add(doubled.Sum()).Backward()
	require.Equal(t, []float32{-2 - 4, 4 + 8, 0 + 28}, torch.ToSlice[float32](x.Grad()))

	kept := x.Exp() // keeps its result
	nn.ReLU6{Inplace: true}.Forward(kept)
	require.ErrorContains(t, torch.Try(func() { kept.Sum().Backward() }), "inplace")
}

func bits(x *torch.Tensor) []uint32 {
	return sameFloats(torch.ToSlice[float32](x.ToDType(torch.Float32)))
}

// sameFloats compares NaN as equal to itself.
func sameFloats(v []float32) []uint32 {
	out := make([]uint32, len(v))
	for i, x := range v {
		if out[i] = math.Float32bits(x); x != x {
			out[i] = math.Float32bits(float32(math.NaN()))
		}
	}
	return out
}
