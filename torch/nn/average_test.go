package nn_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestAveragedModel compares with torch.optim.swa_utils.AveragedModel, with and without buffers.
func TestAveragedModel(t *testing.T) {
	var file struct {
		Averages []struct {
			Kind    string           `json:"kind"`
			Buffers bool             `json:"buffers"`
			Start   map[string]array `json:"start"`
			Keys    []string         `json:"keys"`
			After   []struct {
				Model   map[string]array `json:"model"`
				Average map[string]array `json:"average"`
			} `json:"after"`
		} `json:"averages"`
	}
	golden(t, "clipping.json", &file)
	require.Len(t, file.Averages, 4)
	for _, c := range file.Averages {
		m := nn.Sequential{nn.NewLinear(3, 4), nn.NewBatchNorm1d(4), nn.NewLinear(4, 2)}
		nn.ToDType(m, torch.Float64)
		load := func(values map[string]array) {
			sd := nn.StateDict{}
			for k, a := range values {
				sd[k] = a.tensor(torch.Float64)
			}
			_, err := nn.LoadStateDict(m, sd, true)
			require.NoError(t, err)
		}
		load(c.Start)
		a := nn.NewSWA(m)
		if c.Kind == "ema" {
			a = nn.NewEMA(m, 0.9)
		}
		a.UseBuffers = c.Buffers
		keys := []string{}
		nn.Walk(a, func(e nn.Entry) { keys = append(keys, e.Key) })
		require.ElementsMatch(t, c.Keys, keys)
		for i, after := range c.After {
			load(after.Model)
			a.Update(m)
			sd := nn.StateDictOf(a)
			for k, v := range after.Average {
				v.close(t, sd[k], 1e-12, c.Kind+" "+k)
			}
			require.Equal(t, i+1, a.NAveraged.ItemInt())
		}
		before := live()
		a.Update(m)
		require.Equal(t, before, live())
		runtime.KeepAlive(a)
		runtime.KeepAlive(m)
	}
	require.ErrorContains(t, torch.Try(func() { nn.NewEMA(nn.NewLinear(1, 1), 2) }), "between 0 and 1")
}

// TestShadow: the average of a model that trains is NewEMA's; swapped, the model computes with it, and swapped back it
// is what it was.
func TestShadow(t *testing.T) {
	m := nn.Sequential{nn.NewLinear(3, 4), nn.NewBatchNorm1d(4)}
	x := torch.Arange(0., 24., 1., torch.Float32).Reshape(8, 3).MulScalar(0.1)
	ema := nn.NewEMA(m, 0.9)
	ema.UseBuffers = true
	ema.Update(m) // the first copies
	shadow := nn.NewShadow(nn.StateDictOf(m), 0.9)
	for range 3 {
		torch.NoGrad(func() {
			m.Forward(x) // moves the running statistics
			for _, p := range nn.Parameters(m) {
				p.MulScalar_(1.1)
			}
		})
		shadow.Update()
		ema.Update(m)
	}
	nn.SetTraining(m, false)
	nn.SetTraining(ema.Module, false)
	own := m.Forward(x)
	want := ema.Module.Forward(x)
	require.False(t, own.Equal(want))
	require.Len(t, shadow.StateDict(), 6, "the count of batches is no average")
	shadow.Swap()
	require.True(t, m.Forward(x).Equal(want), "to the bit")
	shadow.Swap()
	require.True(t, m.Forward(x).Equal(own))
	require.ErrorContains(t, torch.Try(func() { nn.NewShadow(nil, 2) }), "the decay must be between 0 and 1")
}
