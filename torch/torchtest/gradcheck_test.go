package torchtest

import (
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

func leaf(values []float64, shape ...int) *torch.Tensor {
	return shaped(values, shape).SetRequiresGrad(true)
}

func TestGradcheckAccepts(t *testing.T) {
	NoLeaks(t)
	x, y := leaf([]float64{0.5, -1.25, 2, 0.75, 1.5, -0.3}, 2, 3), leaf([]float64{1.5, 0.25, -2}, 3)
	Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[1]).Tanh() }, []*torch.Tensor{x, y})
	Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Square().Sum() }, []*torch.Tensor{x})
	Gradgradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[1]).Exp() }, []*torch.Tensor{x, y})
	// The result depends on one input only, and linearly.
	Gradgradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].MulScalar(3) }, []*torch.Tensor{x, y})
	// Zero-dimensional, empty, not contiguous, and inputs that are not checked.
	Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Sin() }, []*torch.Tensor{leaf([]float64{0.4})})
	Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Sin() }, []*torch.Tensor{leaf(nil, 2, 0)})
	s := Array{DType: torch.Float64, Shape: []int{2, 3}, Strided: true, Floats: []float64{1, 2, 3, 4, 5, 6}}
	z := s.Tensor()
	require.False(t, z.IsContiguous())
	Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[1]).Log() }, []*torch.Tensor{z.SetRequiresGrad(true), torch.Ones(torch.S(3), torch.Float32)})
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, torch.ToSlice[float64](z), "the input was not restored")
	require.Nil(t, x.Grad(), "a check must not touch Grad")
}

func TestGradcheckRefuses(t *testing.T) {
	x := leaf([]float64{0.5, -1.25, 2}, 3)
	in := []*torch.Tensor{x}
	square := func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[0]) }
	for _, c := range []struct {
		name  string
		f     func(in []*torch.Tensor) *torch.Tensor
		in    []*torch.Tensor
		words string
	}{
		{"half of the gradient", func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[0].Detach()) }, in,
			"input 0: 3 of 9 derivatives are wrong; the worst is ∂result[2]/∂input[2]: analytical 2, numerical 4"},
		{"no graph", func(in []*torch.Tensor) *torch.Tensor { return in[0].Detach().Exp() }, in, "does not require grad"},
		{"float32 input", square, []*torch.Tensor{torch.Ones(torch.S(2), torch.RequiresGrad)}, "input 0 is float32"},
		{"float32 result", func(in []*torch.Tensor) *torch.Tensor { return in[0].ToDType(torch.Float32) }, in, "the result is float32"},
		{"nothing to check", square, []*torch.Tensor{torch.Ones(torch.S(2), torch.Float64)}, "no input requires grad"},
		{"expanded", square, []*torch.Tensor{torch.Ones(torch.S(1), torch.Float64).Expand(3).SetRequiresGrad(true)}, "input 0 is expanded"},
		{"nil", func(in []*torch.Tensor) *torch.Tensor { return nil }, in, "f returned nil"},
		{"a panic", func(in []*torch.Tensor) *torch.Tensor { return in[0].Add(torch.Ones(torch.S(2))) }, in, "add: [3] x [2]"},
		{"random", func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[0].RandLike()) }, in, "derivatives are wrong"},
		{"changing shape", func() func(in []*torch.Tensor) *torch.Tensor {
			calls := 0
			return func(in []*torch.Tensor) *torch.Tensor {
				if calls++; calls > 1 {
					return in[0].Sum()
				}
				return in[0].Exp()
			}
		}(), in, "must not depend on anything but its inputs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, gradcheck(c.f, c.in, nil), c.words)
		})
	}
	require.Equal(t, []float64{0.5, -1.25, 2}, torch.ToSlice[float64](x), "the input was not restored")
	messages := record(t, func(t testing.TB) {
		Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[0].Detach()) }, in)
	})
	require.Len(t, messages, 1)
	// The same function passes when the tolerance allows everything.
	require.NoError(t, gradcheck(func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[0].Detach()) }, in, []Option{Atol(5), Rtol(0), Eps(1e-5)}))
}

func TestGradgradcheckRefuses(t *testing.T) {
	x := leaf([]float64{0.5, -1.25, 2}, 3)
	// The value is x² and the first derivative 2x, but the second derivative is lost.
	f := func(in []*torch.Tensor) *torch.Tensor {
		d := in[0].Detach()
		return d.Mul(in[0]).MulScalar(2).Sub(d.Mul(d))
	}
	messages := record(t, func(t testing.TB) { Gradgradcheck(t, f, []*torch.Tensor{x}) })
	require.Len(t, messages, 1)
	require.Contains(t, messages[0], "derivatives are wrong")
	Gradgradcheck(t, func(in []*torch.Tensor) *torch.Tensor { return in[0].Mul(in[0]) }, []*torch.Tensor{x})
}
