package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func TestConstructorErrors(t *testing.T) {
	for want, f := range map[string]func(){
		`nn.NewLinear: takes no option "Stride"; it takes DType Device Generator NoInit Bias`: func() { nn.NewLinear(1, 1, nn.Stride(2)) },
		`takes no option "Momentum"`: func() { nn.NewLayerNorm([]int{1}, nn.Momentum(0.5)) },
		`takes no option ""`:         func() { nn.NewLinear(1, 1, nn.Option{}) },
		"in_features -1":             func() { nn.NewLinear(-1, 1) },
		"3 input and 4 output channels cannot be cut into 2 groups": func() { nn.NewConv2d(3, 4, 1, nn.Groups(2)) },
		"4 input and 3 output channels cannot be cut into 2 groups": func() { nn.NewConv2d(4, 3, 1, nn.Groups(2)) },
		"kernel [0 0]":                    func() { nn.NewConv2d(1, 1, 0) },
		"padding [-1 -1] not negative":    func() { nn.NewConv2d(1, 1, 1, nn.Padding(-1)) },
		"one number, or height and width": func() { nn.NewConv2d(1, 1, 1, nn.Stride(1, 2, 3)) },
		"between 0 and 1, but got -0.1":   func() { nn.NewDropout(-0.1) },
		"num_embeddings -1":               func() { nn.NewEmbedding(-1, 2) },
	} {
		err := torch.Try(f)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, torch.ErrValue)
	}
}

func TestWrongInputNamesTheOperatorAndShapes(t *testing.T) {
	err := torch.Try(func() { nn.NewLinear(5, 4).Forward(torch.Ones(torch.S(2, 3))) })
	var e *torch.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, err.Error(), "[2 3] x [4 5]")
}

type keeper struct{ out *torch.Tensor }

func (k *keeper) Forward(x *torch.Tensor) *torch.Tensor {
	y := x.MulScalar(2)
	k.out = y.Retain()
	return y
}

// Through frees the results between the layers, and neither its input nor its output, whatever aliases them.
func TestThroughFreesWhatItMade(t *testing.T) {
	x := torch.Ones(torch.S(2, 3))
	before := live()
	k := &keeper{}
	y := nn.Through(x, nn.Identity{}, k, nn.ReLU{Inplace: true}, nn.NewFlatten(), nn.Identity{}, nn.ReLU{})
	require.Equal(t, before+2, torch.Live(), "y and what keeper kept")
	require.Equal(t, []float32{2, 2, 2, 2, 2, 2}, torch.ToSlice[float32](y))
	require.Equal(t, []float32{2, 2, 2, 2, 2, 2}, torch.ToSlice[float32](k.out))
	require.Equal(t, []float32{1, 1, 1, 1, 1, 1}, torch.ToSlice[float32](x))
	require.Same(t, x, nn.Through(x))
	require.Same(t, x, nn.Sequential{nn.Identity{}}.Forward(x))
}

func TestSequentialInScopesLeaksNothing(t *testing.T) {
	m := nn.Sequential{nn.NewConv2d(1, 2, 3), nn.NewBatchNorm2d(2), nn.ReLU{Inplace: true}, nn.NewMaxPool2d(2), nn.NewFlatten(), nn.NewLinear(18, 3)}
	x := torch.Ones(torch.S(2, 1, 8, 8))
	step := func() {
		torch.Scope(func(*torch.Arena) { m.Forward(x).Sum().Backward() })
		torch.Inference(func() { torch.Scope(func(*torch.Arena) { m.Forward(x) }) })
	}
	nn.SetTraining(m, false)
	step()
	before := live()
	for range 20 {
		step()
	}
	require.Equal(t, before, torch.Live())
}
