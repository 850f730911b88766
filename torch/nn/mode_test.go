package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
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
