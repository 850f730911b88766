package train

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSaveEvery saves by time, by steps and by epochs: with a time that has always passed each step leaves a checkpoint, in the middle of an epoch too.
func TestSaveEvery(t *testing.T) {
	c := small(folder(t, 60), "an")
	c.BatchSize, c.Epochs, c.MaxSteps = 8, 2, 3
	for _, x := range []struct {
		every string
		kept  int
	}{{"1ns", 2}, {"2", 2}, {"24h", 1}} { // the newest two are kept; a stop saves in any case
		c.SaveEvery, c.Run = x.every, filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, Events{})
		var stopped *StoppedError
		require.ErrorAs(t, err, &stopped)
		names, err := list(filepath.Join(c.Run, checkpoints))
		require.NoError(t, err)
		require.Len(t, names, x.kept, x.every)
	}
	c.SaveEvery = "30m"
	every, steps, err := c.saveEvery()
	require.NoError(t, err)
	require.Equal(t, 30*time.Minute, every)
	require.Zero(t, steps)
	c.SaveEvery = "often"
	_, _, err = c.saveEvery()
	require.ErrorContains(t, err, "a time (10m) or a number of steps (500)")
}
