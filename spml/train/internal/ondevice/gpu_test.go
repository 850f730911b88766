package ondevice_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/train"
)

// gpu skips the test where there is no card; docs/gpu-open.md lists what one must show.
func gpu(t *testing.T) {
	t.Helper()
	if cuda.DeviceCount() == 0 {
		require.ErrorIs(t, cuda.Available(), cuda.ErrNoDevice)
		c := settingsOf(config.Shapes, "an")
		c.Run.Device = config.DeviceCUDA
		_, err := train.Run(context.Background(), c, train.RunOptions{})
		require.ErrorIs(t, err, cuda.ErrNoDevice)
		t.Skip("there is no card")
	}
	require.NoError(t, cuda.Available())
	before := compute.LossForm
	compute.LossForm = string(loss.Auto)
	t.Cleanup(func() { compute.LossForm = before })
}

// drawn is a run on drawn pictures, which need no files.
func drawn(method string) config.Config {
	c := settingsOf(config.Shapes, method)
	c.Data.Options, c.Data.ImageSize, c.Optim.Name, c.Optim.LR = config.DataOptions{
		Train: 256,
		Val:   64,
		Test:  64,
	}, 64, "sgd", 0.02
	return c
}

// TestGPUTrain: runs on the card beside the CPU's.
func TestGPUTrain(t *testing.T) {
	gpu(t)
	for _, e := range loss.Entries() {
		if method.Of(e).Lacks() != "" || e.ID == "smile-classifier" {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			c := drawn(e.ID)
			if e.ID == "lac" {
				c.Model.DecoderDim, c.Method.QueueSize = 16, 24
			}
			// Methods that select turn the last bits into other labels in time: three steps are compared closely, the run's
			// losses loosely.
			short := c
			short.Data.Options, short.Optim.BatchSize, short.Schedule.Epochs = config.DataOptions{
				Train: 24,
				Val:   16,
				Test:  16,
			}, 8, 1
			same(t, do(t, short, "cpu"), do(t, short, "cuda"), 1e-3)
			require.InEpsilonSlice(t, do(t, c, "cpu").losses, do(t, c, "cuda").losses, 0.1)
		})
	}
}

// TestGPUPrecision: bf16 and fp16 end near float32, and bf16 is what the card gets where it has it.
func TestGPUPrecision(t *testing.T) {
	gpu(t)
	c := drawn("an")
	c.Model.Backbone, c.Schedule.Epochs = "resnet18", 2
	want := do(t, c, "cuda")
	for _, p := range []string{config.BF16, config.FP16} {
		c.Run.Precision = p
		require.InEpsilonSlice(t, want.losses, do(t, c, "cuda").losses, 0.05, p)
	}
	p, err := cuda.DeviceProperties(0)
	require.NoError(t, err)
	c.Run.Precision, c.Run.Device = "", "cuda"
	r, err := c.Resolve()
	require.NoError(t, err)
	require.Equal(t, map[bool]string{true: config.BF16, false: config.FP32}[p.Major >= 8], r.Run.Precision)
}

// TestGPUResume: a run that is stopped in an epoch ends with the weights of one that is not; on the CPU it goes on too.
func TestGPUResume(t *testing.T) {
	gpu(t)
	c := drawn("role")
	want := do(t, c, "cuda")
	for d, tolerance := range map[string]float64{"cuda": 0, "cpu": 1e-4} {
		c.Run.Device, c.Run.MaxSteps, c.Run.Dir = "cuda", 37, filepath.Join(t.TempDir(), "run")
		_, err := train.Run(context.Background(), c, train.RunOptions{})
		require.Error(t, err)
		res, err := train.Resume(
			context.Background(),
			c.Run.Dir,
			func(c *config.Config) { c.Run.Device, c.Run.MaxSteps = d, 0 },
			train.RunOptions{},
		)
		require.NoError(t, err)
		same(t, want, read(t, c.Run.Dir, res, nil), tolerance)
	}
}

// TestGPUProcesses: two processes, each with a card, end with the weights of one on the CPU.
func TestGPUProcesses(t *testing.T) {
	gpu(t)
	if cuda.DeviceCount() < 2 {
		t.Skip("there is one card")
	}
	processes(t, "cuda")
}

// TestGPUSpeed prints images per second of fine-tuning, with the loader and without a checkpoint.
func TestGPUSpeed(t *testing.T) {
	gpu(t)
	for _, backbone := range []string{"mobilenet_v2", "resnet50"} {
		for _, p := range []string{config.FP32, config.BF16} {
			c := drawn("an")
			c.Model.Backbone, c.Run.Precision, c.Run.Device = backbone, p, "cuda"
			c.Data.ImageSize, c.Optim.BatchSize, c.Schedule.Epochs = 224, 64, 3
			c.Data.Options = config.DataOptions{Train: 2048, Val: 64, Test: 64}
			begun := time.Now()
			var last train.Step
			_, err := train.Run(context.Background(), c, train.RunOptions{Events: train.Events{Step: func(s train.Step) {
				if s.Phase == "train" {
					last = s
				}
			}}})
			require.NoError(t, err)
			t.Logf("%s %s batch 64 at 224: %.0f images/s in the last epoch, %v in all", backbone, p, last.ImagesPerSec, time.Since(begun).Round(time.Second))
		}
	}
}
