package train

import (
	"context"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
		for _, p := range []string{FP32, BF16, FP16} {
			c := small(dir, method)
			c.Precision, c.Epochs, c.Threads, c.Run = p, 1, 1, filepath.Join(t.TempDir(), "run")
			if method == "role" {
				c.MicroBatch = 3 // the gradient by the logits goes through the parts
			}
			res, err := Run(context.Background(), c, Events{})
			require.NoError(t, err, method)
			losses[p] = res.Epochs[0].Loss
			sd, _, err := nn.LoadSafetensors(filepath.Join(c.Run, "model", model.WeightsFile))
			require.NoError(t, err)
			for k, w := range sd {
				require.NotContains(t, []torch.DType{torch.BFloat16, torch.Float16}, w.DType(), k)
			}
		}
		require.NotEqual(t, losses[FP32], losses[BF16], method)
		require.NotEqual(t, losses[BF16], losses[FP16], method)
		require.InEpsilon(t, losses[FP32], losses[BF16], 0.05, method)
		require.InEpsilon(t, losses[FP32], losses[FP16], 0.02, method)
	}
	_, err := Config{Data: "x", Method: "an", Mode: Frozen, Features: "f.npy", Precision: BF16}.Resolve()
	require.ErrorContains(t, err, "is for fine-tuning")
}

// TestGradientsAreUnscaled: after one step of SGD in float16 the weights are those of float32 but for the rounding of
// the pass; a factor left in would show.
func TestGradientsAreUnscaled(t *testing.T) {
	dir := folder(t, 40)
	var heads [2][]float64
	for i, p := range []string{FP32, FP16} {
		c := small(dir, "an")
		c.Precision, c.Optimizer, c.LR, c.HeadLR, c.Threads, c.MaxSteps, c.Epochs = p, "sgd", 0.5, 0.5, 1, 1, 1
		c, err := c.Resolve()
		require.NoError(t, err)
		_, err = run(context.Background(), c, Events{}, false, func(t *trainer) {
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
	c.Epochs, c.BatchSize, c.Threads, c.Precision, c.EMA = 2, 12, 1, FP16, 0.9
	c.Run = filepath.Join(t.TempDir(), "whole")
	var notes []string
	res, err := Run(context.Background(), c, Events{Note: func(s string) { notes = append(notes, s) }})
	require.NoError(t, err)
	require.Len(t, res.Epochs, 2)
	require.Equal(t, []float64{65536, 65536, 32768, 32768, 16384, 16384}, factors)
	require.Equal(t, 1, strings.Count(strings.Join(notes, "\n"), "overflowed"), notes)
	require.Contains(t, notes[0], "fp16 (as set; this CPU's default is fp32)")
	want, pos := newestSum(t, c.Run)
	require.Equal(t, 2, pos.Skipped)
	require.Equal(t, weights[1], weights[2], "the second step changes nothing")
	require.Equal(t, weights[3], weights[4])
	require.NotEqual(t, weights[0], weights[1])
	require.NotEqual(t, weights[2], weights[3])

	c.Run = filepath.Join(t.TempDir(), "cut")
	interrupted(t, c, 2, 4)
	got, cut := newestSum(t, c.Run)
	require.Equal(t, want, got)
	require.Equal(t, untimed(pos), untimed(cut))
}

// TestDefaultPrecision: bfloat16 where the processor has a unit for it, and only for networks.
func TestDefaultPrecision(t *testing.T) {
	defer func(f func() bool) { matrixUnit = f }(matrixUnit)
	for _, amx := range []bool{false, true} {
		matrixUnit = func() bool { return amx }
		tuned, err := Config{Data: "x", Method: "an"}.Resolve()
		require.NoError(t, err)
		head, err := Config{Data: "x", Method: "an", Mode: Frozen, Features: "f.npy"}.Resolve()
		require.NoError(t, err)
		set, err := Config{Data: "x", Method: "an", Precision: FP16}.Resolve()
		require.NoError(t, err)
		require.Equal(t, map[bool]string{false: FP32, true: BF16}[amx], tuned.Precision)
		require.Equal(t, map[bool]string{false: "fp32 (CPU without AMX)", true: "bf16 (CPU with AMX)"}[amx], tuned.precisionNote(torch.DeviceCPU))
		require.Equal(t, FP32, head.Precision)
		require.Equal(t, "fp32", head.precisionNote(torch.DeviceCPU))
		require.Equal(t, FP16, set.Precision)
		require.Contains(t, set.precisionNote(torch.DeviceCPU), "this CPU's default is "+tuned.Precision)
	}
}
