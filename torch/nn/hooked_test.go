package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func TestHooked(t *testing.T) {
	plain := nn.Sequential{nn.NewLinear(2, 2), nn.ReLU{}, nn.NewLinear(2, 1)}
	m := nn.Copy(plain)
	var shapes [][]int
	var grads []float64
	h := &nn.Hooked{Layer: m[0]}
	m[0] = h
	require.Equal(t, nn.StateDictOf(plain).Keys(), nn.StateDictOf(m).Keys())
	x := torch.Ones(torch.S(3, 2))
	require.True(t, plain.Forward(x).Equal(m.Forward(x)))

	h.Before = func(l nn.Layer, x *torch.Tensor) *torch.Tensor {
		require.Same(t, h.Layer, l)
		shapes = append(shapes, x.Shape())
		return x.MulScalar(2)
	}
	h.After = func(_ nn.Layer, x, y *torch.Tensor) *torch.Tensor {
		shapes = append(shapes, y.Shape())
		return y.AddScalar(1)
	}
	h.Backward = func(_ nn.Layer, g *torch.Tensor) *torch.Tensor {
		grads = append(grads, g.Sum().Item())
		return g.MulScalar(0)
	}
	want := nn.Through(plain[0].Forward(x.MulScalar(2)).AddScalar(1), plain[1:]...)
	y := m.Forward(x)
	require.True(t, want.Equal(y))
	require.Equal(t, [][]int{{3, 2}, {3, 2}}, shapes)
	y.Sum().Backward()
	require.Len(t, grads, 1)
	require.Zero(t, h.Layer.(*nn.Linear).Weight.Grad().Abs().Sum().Item())
	require.NotZero(t, m[2].(*nn.Linear).Bias.Grad().Item())
	torch.NoGrad(func() { m.Forward(x) })
	require.Len(t, grads, 1)
}
