package ondevice_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/train"
)

// gpu skips the test where there is no card; docs/gpu-open.md lists what one must show.
func gpu(t *testing.T) {
	t.Helper()
	if cuda.DeviceCount() == 0 {
		require.ErrorIs(t, cuda.Available(), cuda.ErrNoDevice)
		c := config(train.ShapesName, "an")
		c.Device = train.DeviceCUDA
		_, err := train.Run(context.Background(), c, train.Events{})
		require.ErrorIs(t, err, cuda.ErrNoDevice)
		t.Skip("there is no card")
	}
	require.NoError(t, cuda.Available())
	before := compute.LossForm
	compute.LossForm = string(loss.Auto)
	t.Cleanup(func() { compute.LossForm = before })
}

// drawn is a run on drawn pictures, which need no files.
func drawn(method string) train.Config {
	c := config(train.ShapesName, method)
	c.DataOptions, c.ImageSize, c.Optimizer, c.LR = "train=256,val=64,test=64", 64, "sgd", 0.02
	return c
}

// TestGPUTrain: runs on the card beside the CPU's.
func TestGPUTrain(t *testing.T) {
	gpu(t)
	for _, e := range loss.Entries() {
		if !train.Trainable(e) || e.ID == "smile-classifier" {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			c := drawn(e.ID)
			if e.ID == "lac" {
				c.DecoderDim, c.QueueSize = 16, 24
			}
			// Methods that select turn the last bits into other labels in time: three steps are compared closely, the run's
			// losses loosely.
			short := c
			short.DataOptions, short.BatchSize, short.Epochs = "train=24,val=16,test=16", 8, 1
			same(t, do(t, short, "cpu"), do(t, short, "cuda"), 1e-3)
			require.InEpsilonSlice(t, do(t, c, "cpu").losses, do(t, c, "cuda").losses, 0.1)
		})
	}
}

// TestGPUPrecision: bf16 and fp16 end near float32, and bf16 is what the card gets where it has it.
func TestGPUPrecision(t *testing.T) {
	gpu(t)
	c := drawn("an")
	c.Backbone, c.Epochs = "resnet18", 2
	want := do(t, c, "cuda")
	for _, p := range []string{train.BF16, train.FP16} {
		c.Precision = p
		require.InEpsilonSlice(t, want.losses, do(t, c, "cuda").losses, 0.05, p)
	}
	p, err := cuda.DeviceProperties(0)
	require.NoError(t, err)
	c.Precision, c.Device = "", "cuda"
	r, err := c.Resolve()
	require.NoError(t, err)
	require.Equal(t, map[bool]string{true: train.BF16, false: train.FP32}[p.Major >= 8], r.Precision)
}

// TestGPUResume: a run that is stopped in an epoch ends with the weights of one that is not; on the CPU it goes on too.
func TestGPUResume(t *testing.T) {
	gpu(t)
	c := drawn("role")
	want := do(t, c, "cuda")
	for d, tolerance := range map[string]float64{"cuda": 0, "cpu": 1e-4} {
		c.Device, c.MaxSteps, c.Run = "cuda", 37, filepath.Join(t.TempDir(), "run")
		_, err := train.Run(context.Background(), c, train.Events{})
		require.Error(t, err)
		res, err := train.Resume(context.Background(), c.Run, func(c *train.Config) { c.Device, c.MaxSteps = d, 0 }, train.Events{})
		require.NoError(t, err)
		same(t, want, read(t, c.Run, res, nil), tolerance)
	}
}

// TestGPUSpeed prints images per second of fine-tuning, with the loader and without a checkpoint.
func TestGPUSpeed(t *testing.T) {
	gpu(t)
	for _, backbone := range []string{"mobilenet_v2", "resnet50"} {
		for _, p := range []string{train.FP32, train.BF16} {
			c := drawn("an")
			c.Backbone, c.Precision, c.Device, c.ImageSize, c.BatchSize, c.Epochs = backbone, p, "cuda", 224, 64, 3
			c.DataOptions = "train=2048,val=64,test=64"
			begun := time.Now()
			var last train.Step
			_, err := train.Run(context.Background(), c, train.Events{Step: func(s train.Step) {
				if s.Phase == "train" {
					last = s
				}
			}})
			require.NoError(t, err)
			t.Logf("%s %s batch 64 at 224: %.0f images/s in the last epoch, %v in all", backbone, p, last.ImagesPerSec, time.Since(begun).Round(time.Second))
		}
	}
}
