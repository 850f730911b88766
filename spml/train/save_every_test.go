package train

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
)

// TestSaveEvery saves by time, by steps and by epochs: with a time that has always passed each step leaves a checkpoint, in the middle of an epoch too.
func TestSaveEvery(t *testing.T) {
	c := small(folder(t, 60), "an")
	c.Optim.BatchSize, c.Schedule.Epochs, c.Run.MaxSteps = 8, 2, 3
	for _, x := range []struct {
		every config.SaveEvery
		kept  int
		// the newest two are kept; a stop saves in any case
	}{{config.SaveEvery{Time: 1}, 2}, {config.SaveEvery{Steps: 2}, 2}, {config.SaveEvery{Time: 24 * time.Hour}, 1}} {
		c.Run.SaveEvery, c.Run.Dir = x.every, filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, RunOptions{})
		var stopped *StoppedError
		require.ErrorAs(t, err, &stopped)
		names, err := list(filepath.Join(c.Run.Dir, checkpoints))
		require.NoError(t, err)
		require.Len(t, names, x.kept, x.every)
	}
}
