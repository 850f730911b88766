package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestSyncBatchNormOfOneProcess: with the sum of one process the layer is libtorch's, in outputs, gradients and running statistics.
func TestSyncBatchNormOfOneProcess(t *testing.T) {
	g := torch.NewGenerator(3)
	x := torch.Empty(torch.S(4, 3, 5, 5), torch.Float32).Normal_(1, 2, g)
	up := torch.Empty(torch.S(4, 3, 5, 5), torch.Float32).Normal_(0, 1, g)
	var got [2][]*torch.Tensor
	for i := range got {
		b := nn.NewBatchNorm2d(3)
		if i == 1 {
			require.True(t, nn.SyncBatchNorm(b, func(x *torch.Tensor) *torch.Tensor { return x }))
		}
		in := x.Clone().SetRequiresGrad(true)
		y := b.Forward(in)
		y.Mul(up).Sum().Backward()
		got[i] = []*torch.Tensor{y.Detach(), in.Grad(), b.Weight.Grad(), b.Bias.Grad(), b.RunningMean, b.RunningVar, b.NumBatchesTracked}
	}
	for k := range got[0] {
		require.InDeltaSlice(t, torch.ToSlice[float64](got[0][k]), torch.ToSlice[float64](got[1][k]), 2e-5, "%d", k)
	}
	require.False(t, nn.SyncBatchNorm(nn.NewLinear(2, 2), nil))
	b := nn.NewBatchNorm2d(3)
	nn.FreezeBatchNorm(b, true)
	require.False(t, nn.SyncBatchNorm(b, nil))
}
