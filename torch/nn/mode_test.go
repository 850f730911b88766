package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/torchtest"
)

func TestSetTraining(t *testing.T) {
	m := newModel()
	require.True(t, m.BN1.Training)
	nn.SetTraining(m, false)
	require.False(t, m.BN1.Training)
	require.False(t, m.MLP[2].(*nn.Dropout).Training)
	nn.SetTraining(m, true)
	require.True(t, m.BN1.Training)
	require.True(t, m.MLP[2].(*nn.Dropout).Training)
	nn.SetDropout(m, 0.25)
	require.Equal(t, 0.25, m.MLP[2].(*nn.Dropout).P)
	require.ErrorContains(t, torch.Try(func() { nn.SetDropout(m, 1.5) }), "between 0 and 1")
}

func TestEvaluationLeavesDropoutsInputAlone(t *testing.T) {
	d := nn.NewDropout(0.5)
	nn.SetTraining(d, false)
	x := torch.Ones(torch.S(3))
	require.Same(t, x, d.Forward(x))
}

// Frozen batch normalisation computes as in evaluation mode, keeps its statistics, and trains gain and bias.
func TestFreezeBatchNorm(t *testing.T) {
	torch.ManualSeed(1)
	b := nn.NewBatchNorm2d(3)
	nn.Uniform_(b.RunningMean, -1, 1, nil)
	nn.Uniform_(b.RunningVar, 0.5, 2, nil)
	mean := b.RunningMean.Clone()
	x := torch.Randn(torch.S(4, 3, 2, 2))
	nn.SetTraining(b, false)
	want := b.Forward(x)

	m := nn.Sequential{b}
	nn.FreezeBatchNorm(m, true)
	nn.SetTraining(m, true)
	y := m.Forward(x)
	require.True(t, y.Equal(want))
	y.Square().Sum().Backward()
	require.NotNil(t, b.Weight.Grad())
	require.True(t, b.RunningMean.Equal(mean))
	require.Equal(t, 0, b.NumBatchesTracked.ItemInt())

	nn.FreezeBatchNorm(m, false)
	require.False(t, m.Forward(x).Equal(want))
	require.False(t, b.RunningMean.Equal(mean))
	require.Equal(t, 1, b.NumBatchesTracked.ItemInt())
}

func TestBatchNormErrors(t *testing.T) {
	b := nn.NewBatchNorm2d(2)
	require.ErrorContains(t, torch.Try(func() { b.Forward(torch.Ones(torch.S(1, 2, 1, 1))) }), "expected more than 1 value per channel when training, got input size [1 2 1 1]")
	require.ErrorContains(t, torch.Try(func() { b.Forward(torch.Ones(torch.S(4, 2))) }), "expected 4D input, got 2D input")
	require.Equal(t, 0, b.NumBatchesTracked.ItemInt())
	nn.SetTraining(b, false)
	b.Forward(torch.Ones(torch.S(1, 2, 1, 1)))
	require.ErrorContains(t, torch.Try(func() { b.Forward(torch.Ones(torch.S(4, 2))) }), "expected 4D input, got 2D input")
}

func TestRequiresGrad(t *testing.T) {
	m := newModel()
	nn.RequiresGrad(m, false)
	for k, p := range nn.NamedParameters(m) {
		require.False(t, p.RequiresGrad(), k)
	}
	nn.RequiresGrad(m.MLP, true)
	require.True(t, m.MLP[0].(*nn.Linear).Weight.RequiresGrad())
	require.False(t, m.Conv1.Weight.RequiresGrad())
}

// Conversion keeps the tensors' identity: the same handle, still a leaf, still what an optimizer holds.
func TestToDType(t *testing.T) {
	torch.ManualSeed(2)
	m := nn.Sequential{nn.NewConv2d(1, 2, 3), nn.NewBatchNorm2d(2)}
	w := m[0].(*nn.Conv2d).Weight
	before := torch.ToSlice[float32](w)
	m.Forward(torch.Randn(torch.S(2, 1, 4, 4))).Sum().Backward()
	alive := live()
	nn.ToDType(m, torch.Float64)
	require.Equal(t, alive, torch.Live())
	require.Same(t, w, m[0].(*nn.Conv2d).Weight)
	require.Equal(t, torch.Float64, w.DType())
	require.Equal(t, torch.Float64, w.Grad().DType())
	require.True(t, w.IsLeaf() && w.RequiresGrad())
	require.Equal(t, before, torch.ToSlice[float32](w))
	require.Equal(t, torch.Int64, m[1].(*nn.BatchNorm2d).NumBatchesTracked.DType())
	require.Equal(t, torch.Float64, m[1].(*nn.BatchNorm2d).RunningVar.DType())
	torch.ZeroGrad(nn.Parameters(m), false)
	m.Forward(torch.Randn(torch.S(2, 1, 4, 4), torch.Float64)).Sum().Backward()
	require.Equal(t, torch.Float64, w.Grad().DType())
	nn.ToDevice(m, torch.CPU)
	require.Same(t, w, m[0].(*nn.Conv2d).Weight)
	require.ErrorContains(t, torch.Try(func() { nn.ToDType(m, torch.Int64) }), "int64 is not a floating point type")
}

// A constant normalisation is folded into the convolution: values, and gradients of the weight and the input, are those of the two layers apart.
func TestConvNorm(t *testing.T) {
	torch.ManualSeed(1)
	for _, bias := range []bool{false, true} {
		conv, norm := nn.NewConv2d(3, 5, 3, nn.Padding(1), nn.Stride(2), nn.Bias(bias), nn.DType(torch.Float64)), nn.NewBatchNorm2d(5, nn.DType(torch.Float64))
		for i, p := range []*torch.Tensor{norm.RunningMean, norm.RunningVar, norm.Weight, norm.Bias} {
			torch.NoGrad(func() { nn.Uniform_(p, 0.3, 1+float64(i), nil) })
		}
		x := torch.Randn(torch.S(2, 3, 7, 7), torch.Float64, torch.RequiresGrad)
		gradients := func(y *torch.Tensor) (weight, input *torch.Tensor) {
			conv.Weight.SetGrad(nil)
			x.SetGrad(nil)
			y.Square().Sum().Backward()
			return conv.Weight.Grad().Clone(), x.Grad().Clone()
		}
		nn.FreezeBatchNorm(norm, true)
		want := nn.ConvNorm(x, conv, norm) // gain and bias are trained: nothing is folded
		wantWeight, wantInput := gradients(want)
		require.NotNil(t, norm.Weight.Grad())

		nn.ConstantBatchNorm(norm)
		require.False(t, norm.Weight.RequiresGrad())
		norm.Weight.SetGrad(nil)
		for _, y := range []*torch.Tensor{nn.ConvNorm(x, conv, norm), nn.Sequential{conv, norm}.Forward(x)} {
			weight, input := gradients(y)
			torchtest.AllClose(t, y, want, 1e-12, 1e-12)
			torchtest.AllClose(t, weight, wantWeight, 1e-11, 1e-11)
			torchtest.AllClose(t, input, wantInput, 1e-11, 1e-11)
			require.Nil(t, norm.Weight.Grad())
		}
	}
}
