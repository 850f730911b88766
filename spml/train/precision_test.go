package train

import (
	"context"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestPrecisions trains in bfloat16 and float16: other bits than in float32, about the same loss, and the weights stay
// float32.
func TestPrecisions(t *testing.T) {
	dir := folder(t, 40)
	for _, method := range []string{"an", "role", "plc", "mime"} {
		losses := map[string]float64{}
		for _, p := range []string{config.FP32, config.BF16, config.FP16} {
			c := small(dir, method)
			c.Run.Precision, c.Schedule.Epochs, c.Run.Threads, c.Run.Dir = p, 1, 1, filepath.Join(t.TempDir(), "run")
			if method == "role" {
				c.Optim.MicroBatch = 3 // the gradient by the logits goes through the parts
			}
			res, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err, method)
			losses[p] = res.Epochs[0].Loss
			sd, _, err := nn.LoadSafetensors(filepath.Join(c.Run.Dir, "model", model.WeightsFile))
			require.NoError(t, err)
			for k, w := range sd {
				require.NotContains(t, []torch.DType{torch.BFloat16, torch.Float16}, w.DType(), k)
			}
		}
		require.NotEqual(t, losses[config.FP32], losses[config.BF16], method)
		require.NotEqual(t, losses[config.BF16], losses[config.FP16], method)
		require.InEpsilon(t, losses[config.FP32], losses[config.BF16], 0.05, method)
		require.InEpsilon(t, losses[config.FP32], losses[config.FP16], 0.02, method)
	}
	_, err := config.Config{
		Data:   config.Data{Path: "x"},
		Method: config.Method{ID: "an"},
		Model:  config.Model{Mode: config.Frozen, Features: config.Paths{"f.npy"}},
		Run:    config.Run{Precision: config.BF16},
	}.Resolve()
	require.ErrorContains(t, err, "is for fine-tuning")
}

// TestGradientsAreUnscaled: after one step of SGD in float16 the weights are those of float32 but for the rounding of
// the pass; a factor left in would show.
func TestGradientsAreUnscaled(t *testing.T) {
	dir := folder(t, 40)
	var heads [2][]float64
	for i, p := range []string{config.FP32, config.FP16} {
		c := small(dir, "an")
		c.Run.Precision, c.Optim.Name, c.Optim.LR, c.Optim.HeadLR = p, "sgd", 0.5, 0.5
		c.Run.Threads, c.Run.MaxSteps, c.Schedule.Epochs = 1, 1, 1
		c, err := c.Resolve()
		require.NoError(t, err)
		_, err = run(context.Background(), c, RunOptions{}, false, func(t *trainer) {
			_, head := t.l.groups()
			heads[i] = first(head[0].Detach().Clone())
		})
		var stopped *StoppedError
		require.ErrorAs(t, err, &stopped)
	}
	require.InDeltaSlice(t, heads[0], heads[1], 2e-3)
	require.NotEqual(t, heads[0], heads[1])
}

// TestOverflowIsLeftOut breaks the gradients of two steps: the weights stay, the factor is halved each time, the run
// says it once, and a run that is resumed between has the factor of one that is not.
func TestOverflowIsLeftOut(t *testing.T) {
	dir := folder(t, 60) // 36 training rows: 3 steps an epoch
	var factors []float64
	var weights []string // before each step
	defer func() { faults.beforeStep = nil }()
	faults.beforeStep = func(t *trainer) {
		factors = append(factors, t.step.Scaler.GetScale())
		sd := nn.StateDict{}
		for i, p := range t.step.Parameters {
			sd[strconv.Itoa(i)] = p
		}
		weights = append(weights, stateHash(sd))
		if t.p.Step == 1 || t.p.Step == 3 {
			p := t.step.Parameters[0]
			p.SetGrad(torch.Full(p.Shape(), math.Inf(1), p.DType()))
		}
	}
	c := small(dir, "an")
	c.Schedule.Epochs, c.Optim.BatchSize, c.Run.Threads, c.Run.Precision, c.Optim.EMA = 2, 12, 1, config.FP16, 0.9
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	var notes []string
	res, err := Run(context.Background(), c, RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}})
	require.NoError(t, err)
	require.Len(t, res.Epochs, 2)
	require.Equal(t, []float64{65536, 65536, 32768, 32768, 16384, 16384}, factors)
	require.Equal(t, 1, strings.Count(strings.Join(notes, "\n"), "overflowed"), notes)
	require.Contains(t, notes[0], "fp16 (as set; this CPU's default is fp32)")
	want, pos := newestSum(t, c.Run.Dir)
	require.Equal(t, 2, pos.Skipped)
	require.Equal(t, weights[1], weights[2], "the second step changes nothing")
	require.Equal(t, weights[3], weights[4])
	require.NotEqual(t, weights[0], weights[1])
	require.NotEqual(t, weights[2], weights[3])

	c.Run.Dir = filepath.Join(t.TempDir(), "cut")
	interrupted(t, c, 2, 4)
	got, cut := newestSum(t, c.Run.Dir)
	require.Equal(t, want, got)
	require.Equal(t, untimed(pos), untimed(cut))
}
