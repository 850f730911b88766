package jit

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

type net struct {
	Features nn.Sequential
	Head     *nn.Linear
}

func (n *net) forward(x *torch.Tensor) *torch.Tensor {
	return n.Head.Forward(n.Features.Forward(x).MeanDim([]int{2, 3}, false))
}

// TestTrace: a traced module has the layers' names and numbers, for other batches and sizes of pictures, and so has the file.
func TestTrace(t *testing.T) {
	torch.ManualSeed(4)
	n := &net{nn.Sequential{nn.NewConv2d(3, 6, 3), nn.NewBatchNorm2d(6), nn.ReLU{}, nn.NewConv2d(6, 8, 3)}, nn.NewLinear(8, 5)}
	nn.SetTraining(n, false)
	m, err := Trace(n, torch.Randn(torch.S(1, 3, 12, 12)), n.forward)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "net.pt")
	require.NoError(t, m.Save(path, map[string]string{"config.json": `{"a": 1}`}))
	back, err := Load(path)
	require.NoError(t, err)
	defer back.Close()
	for _, shape := range [][]int{{1, 3, 12, 12}, {4, 3, 12, 12}, {2, 3, 20, 15}} {
		x := torch.Randn(shape)
		want := n.forward(x)
		for _, got := range []*Module{m, back} {
			y, err := got.Forward(x)
			require.NoError(t, err)
			require.InDeltaSlice(t, torch.ToSlice[float32](want.Detach()), torch.ToSlice[float32](y.Detach()), 1e-5)
		}
	}
	sd, err := back.StateDict()
	require.NoError(t, err)
	require.Equal(t, nn.StateDictOf(n).Keys(), sd.Keys())
	ps, err := back.Parameters()
	require.NoError(t, err)
	require.Len(t, ps, len(nn.Parameters(n)))
	require.NoError(t, m.Close())
}

// TestTraceFails: a forward that panics gives its error, and the thread does not go on tracing.
func TestTraceFails(t *testing.T) {
	n := &net{nn.Sequential{nn.NewConv2d(3, 6, 3)}, nn.NewLinear(8, 5)}
	_, err := Trace(n, torch.Randn(torch.S(1, 3, 12, 12)), n.forward)
	require.Error(t, err)
	n.Head = nn.NewLinear(6, 5)
	m, err := Trace(n, torch.Randn(torch.S(1, 3, 12, 12)), n.forward)
	require.NoError(t, err)
	require.NoError(t, m.Close())
}
