package train

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongerRuns: a finished run that goes on to more epochs is, to the bit, one that had them from the start:
// checkpoint, optimizer, draws, scores and best model.
func TestLongerRuns(t *testing.T) {
	tuned := Config{Data: ShapesName, DataOptions: "train=40,val=16,test=16", Method: "role", ImageSize: 16, BatchSize: 16, Epochs: 2, Seed: 3, Threads: 1, Optimizer: "sgd", Momentum: 0.9, WarmupEpochs: 0.7, EMA: 0.9}
	flip := true
	tuned.Flip = &flip
	plain := tuned
	plain.Method, plain.Optimizer, plain.Momentum, plain.EMA = "mime", "adam", 0, 0
	frozen := scenes(t, "ll-cp", 5)
	frozen.Epochs = 2
	for name, c := range map[string]Config{"fine-tuned": tuned, "latents": plain, "frozen": frozen} {
		t.Run(name, func(t *testing.T) {
			short, long := c, c
			short.Run, long.Run, long.Epochs = filepath.Join(t.TempDir(), "short"), filepath.Join(t.TempDir(), "long"), 5
			want, err := Run(context.Background(), long, Events{})
			require.NoError(t, err)
			_, err = Run(context.Background(), short, Events{})
			require.NoError(t, err)
			_, done := Finished(short)
			require.True(t, done)

			// Stopped on the way it is not done, and goes on without being told again.
			_, err = Resume(context.Background(), short.Run, func(c *Config) { c.Epochs, c.MaxSteps = 5, lastStep(t, short.Run)+1 }, Events{})
			var stopped *StoppedError
			require.ErrorAs(t, err, &stopped)
			short.Epochs = 5
			_, done = Finished(short)
			require.False(t, done)
			got, err := Resume(context.Background(), short.Run, nil, Events{})
			require.NoError(t, err)
			_, done = Finished(short)
			require.True(t, done)
			sum, at := newestSum(t, long.Run)
			sumShort, atShort := newestSum(t, short.Run)
			require.Equal(t, sum, sumShort)
			require.Equal(t, untimed(at), untimed(atShort))
			require.Len(t, got.Epochs, 5)
			a, err := TestScores(long.Run)
			require.NoError(t, err)
			b, err := TestScores(short.Run)
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
	base := Config{Data: ShapesName, DataOptions: "train=16,val=8,test=8", Method: "an", ImageSize: 16, BatchSize: 16, Epochs: 3, Threads: 1}
	for why, change := range map[string]func(*Config){
		"follows --schedule cosine":               func(c *Config) { c.Schedule = "cosine" },
		"follows --schedule onecycle":             func(c *Config) { c.Schedule = "onecycle" },
		"follows --schedule linear":               func(c *Config) { c.Schedule = "linear" },
		"at each third of the run":                func(c *Config) { c.Schedule = "step" },
		"gr moves its parameters over all epochs": func(c *Config) { c.Method = "gr" },
		"em-apl labels a share":                   func(c *Config) { c.Method, c.Params = "em-apl", map[string]float64{"warmup": 1} },
		"kept no checkpoint of its end":           func(c *Config) { c.SaveEvery = "off" },
	} {
		c := base
		change(&c)
		c.Run = filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, Events{})
		require.NoError(t, err, why)
		_, err = Resume(context.Background(), c.Run, func(c *Config) { c.Epochs = 6 }, Events{})
		var config *ConfigError
		require.ErrorAs(t, err, &config, why)
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, "--init "+c.Run)
		c.Device = ""
		_, done := Finished(c)
		require.True(t, done, "nothing is lost: %s", why)
		_, err = Resume(context.Background(), c.Run, func(c *Config) { c.Epochs = 2 }, Events{})
		require.ErrorContains(t, err, "epochs was 3, is 2")
	}
}
