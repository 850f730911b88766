package train

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// GR's w, b, μ and σ can be trained with the network: one Adam step moves each by its learning rate, from where the schedule would have begun.
func TestLearnedSchedule(t *testing.T) {
	c := scenes(t, "gr", 3)
	c.Method.Params = map[string]float64{"schedule": loss.PointsLearned}
	c.Schedule.Epochs, c.Optim.BatchSize, c.Optim.LR, c.Run.MaxSteps = 1, 64, 1e-3, 1
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	_, err := Run(t.Context(), c, RunOptions{})
	require.Error(t, err, "stopped after a step, resumable")
	names, err := list(filepath.Join(c.Run.Dir, checkpoints))
	require.NoError(t, err)
	_, sd, err := load(filepath.Join(c.Run.Dir, checkpoints, names[0]))
	require.NoError(t, err)
	defer sd.Free()
	found := false
	for _, k := range sd.Keys() {
		if !strings.Contains(k, "parameter") || sd[k].Numel() != 4 || strings.Contains(k, "exp_avg") {
			continue
		}
		found = true
		got := torch.ToSlice[float32](sd[k])
		for i, from := range []float64{0, -2, 0.5, 2} {
			require.InDelta(t, 1e-3, math.Abs(float64(got[i])-from), 1e-5, "%s, parameter %d", k, i)
		}
	}
	require.True(t, found, "%v", sd.Keys())

	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	c.Method.ID = "gpr"
	_, err = newSession(c, ds, Events{})
	require.ErrorContains(t, err, "gr alone")
}
