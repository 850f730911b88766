package train

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
)

// TestLongerRuns: a finished run that goes on to more epochs is, to the bit, one that had them from the start:
// checkpoint, optimizer, draws, scores and best model.
func TestLongerRuns(t *testing.T) {
	tuned := config.Config{
		Data:     config.Data{Path: config.Shapes, Options: config.DataOptions{Train: 40, Val: 16, Test: 16}, ImageSize: 16},
		Method:   config.Method{ID: "role"},
		Optim:    config.Optim{BatchSize: 16, Name: "sgd", Momentum: 0.9, EMA: 0.9},
		Schedule: config.Schedule{Epochs: 2, WarmupEpochs: 0.7},
		Run:      config.Run{Seed: 3, Threads: 1},
	}
	flip := true
	tuned.Data.Flip = &flip
	plain := tuned
	plain.Method.ID, plain.Optim.Name, plain.Optim.Momentum, plain.Optim.EMA = "mime", "adam", 0, 0
	frozen := scenes(t, "ll-cp", 5)
	frozen.Schedule.Epochs = 2
	for name, c := range map[string]config.Config{"fine-tuned": tuned, "latents": plain, "frozen": frozen} {
		t.Run(name, func(t *testing.T) {
			short, long := c, c
			short.Run.Dir, long.Run.Dir, long.Schedule.Epochs = filepath.Join(
				t.TempDir(),
				"short",
			), filepath.Join(t.TempDir(), "long"), 5
			want, err := Run(context.Background(), long, RunOptions{})
			require.NoError(t, err)
			_, err = Run(context.Background(), short, RunOptions{})
			require.NoError(t, err)
			_, done := Finished(short)
			require.True(t, done)

			// Stopped on the way it is not done, and goes on without being told again.
			_, err = Resume(
				context.Background(),
				short.Run.Dir,
				func(c *config.Config) { c.Schedule.Epochs, c.Run.MaxSteps = 5, lastStep(t, short.Run.Dir)+1 },
				RunOptions{},
			)
			var stopped *StoppedError
			require.ErrorAs(t, err, &stopped)
			short.Schedule.Epochs = 5
			_, done = Finished(short)
			require.False(t, done)
			got, err := Resume(context.Background(), short.Run.Dir, nil, RunOptions{})
			require.NoError(t, err)
			_, done = Finished(short)
			require.True(t, done)
			sum, at := newestSum(t, long.Run.Dir)
			sumShort, atShort := newestSum(t, short.Run.Dir)
			require.Equal(t, sum, sumShort)
			require.Equal(t, untimed(at), untimed(atShort))
			require.Len(t, got.Epochs, 5)
			a, err := rundir.ReadTestScores(long.Run.Dir)
			require.NoError(t, err)
			b, err := rundir.ReadTestScores(short.Run.Dir)
			require.NoError(t, err)
			require.Equal(t, a, b)
			require.Equal(t, want.Best.TestMAP, got.Best.TestMAP)
		})
	}
}

func lastStep(t *testing.T, run string) int {
	_, p := newestSum(t, run)
	return p.Step
}

// TestLongerRunsThatAreRefused: where what a run did depends on its length, the error says why and what to do.
func TestLongerRunsThatAreRefused(t *testing.T) {
	base := config.Config{
		Data:     config.Data{Path: config.Shapes, Options: config.DataOptions{Train: 16, Val: 8, Test: 8}, ImageSize: 16},
		Method:   config.Method{ID: "an"},
		Optim:    config.Optim{BatchSize: 16},
		Schedule: config.Schedule{Epochs: 3},
		Run:      config.Run{Threads: 1},
	}
	for why, change := range map[string]func(*config.Config){
		"follows --schedule cosine":               func(c *config.Config) { c.Schedule.Name = "cosine" },
		"follows --schedule onecycle":             func(c *config.Config) { c.Schedule.Name = "onecycle" },
		"follows --schedule linear":               func(c *config.Config) { c.Schedule.Name = "linear" },
		"at each third of the run":                func(c *config.Config) { c.Schedule.Name = "step" },
		"gr moves its parameters over all epochs": func(c *config.Config) { c.Method.ID = "gr" },
		"em-apl labels a share": func(c *config.Config) {
			c.Method.ID, c.Method.Params = "em-apl", map[string]float64{"warmup": 1}
		},
		"kept no checkpoint of its end": func(c *config.Config) { c.Run.SaveEvery = config.SaveEvery{Off: true} },
	} {
		c := base
		change(&c)
		c.Run.Dir = filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err, why)
		_, err = Resume(context.Background(), c.Run.Dir, func(c *config.Config) { c.Schedule.Epochs = 6 }, RunOptions{})
		var wrong *config.Error
		require.ErrorAs(t, err, &wrong, why)
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, "--init "+c.Run.Dir)
		c.Run.Device = ""
		_, done := Finished(c)
		require.True(t, done, "nothing is lost: %s", why)
		_, err = Resume(context.Background(), c.Run.Dir, func(c *config.Config) { c.Schedule.Epochs = 2 }, RunOptions{})
		require.ErrorContains(t, err, "epochs was 3, is 2")
	}
}
