package amp_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
	"github.com/gospml/gospml/torch/optim"
)

func TestMain(m *testing.M) {
	if err := torch.SetNumThreads(1); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

type goldenFile struct {
	Steps []struct {
		Factor  string    `json:"factor"`
		Clip    bool      `json:"clip"`
		Norm    string    `json:"norm"`
		W       []float64 `json:"w"`
		B       []float64 `json:"b"`
		Scale   float64   `json:"scale"`
		Tracker int       `json:"tracker"`
	} `json:"steps"`
	Autocast map[string]map[string]struct {
		DType string    `json:"dtype"`
		Sum   float64   `json:"sum"`
		First []float64 `json:"first"`
	} `json:"autocast"`
}

func golden(t *testing.T) (f goldenFile) {
	b, err := os.ReadFile(testroot.Testdata("nn", "amp.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &f))
	return f
}

func parse(t *testing.T, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

// TestGradScaler runs beside torch.amp.GradScaler: overflowing steps, clipping, growth, and a checkpoint in the middle.
func TestGradScaler(t *testing.T) {
	file := golden(t)
	w := torch.FromSlice([]float32{1, -2, 3}).SetRequiresGrad(true)
	b := torch.FromSlice([]float32{0.5}).SetRequiresGrad(true)
	opt := optim.NewSGD([]*torch.Tensor{w, b}, optim.LR(0.1), optim.Momentum(0.9))
	o := amp.Options{InitScale: 1024, GrowthInterval: 3}
	scaler := amp.NewGradScaler(o)
	skipped := 0
	for i, step := range file.Steps {
		torch.Scope(func(*torch.Arena) {
			opt.ZeroGrad()
			loss := w.Mul(torch.FromSlice([]float32{0.1, 0.2, -0.3})).Sum().Mul(b).Sum().MulScalar(parse(t, step.Factor))
			scaler.Scale(loss).Backward()
			if step.Clip {
				scaler.Unscale(opt)
				norm, want := optim.ClipGradNorm([]*torch.Tensor{w, b}, 0.05, 2).Item(), parse(t, step.Norm)
				if math.IsNaN(want) || math.IsInf(want, 0) {
					require.Equal(t, math.IsNaN(want), math.IsNaN(norm))
				} else {
					require.InEpsilon(t, want, norm, 1e-5)
				}
			}
			if !scaler.Step(opt) {
				skipped++
			}
		})
		scaler.Update()
		for k, v := range torch.ToSlice[float32](w) {
			require.InDelta(t, step.W[k], v, 1e-6, "w after step %d", i)
		}
		require.InDelta(t, step.B[0], torch.ToSlice[float32](b)[0], 1e-6)
		require.Equal(t, step.Scale, scaler.GetScale(), "scale after step %d", i)
		require.Equal(t, step.Tracker, scaler.StateDict().GrowthTracker)
		if i == 8 {
			raw, err := json.Marshal(scaler.StateDict())
			require.NoError(t, err)
			var st amp.State
			require.NoError(t, json.Unmarshal(raw, &st))
			scaler = amp.NewGradScaler(amp.Options{})
			require.NoError(t, scaler.LoadStateDict(st))
			require.Error(t, scaler.LoadStateDict(amp.State{}))
		}
	}
	require.Equal(t, 4, skipped)
}

func TestGradScalerMisuse(t *testing.T) {
	p := torch.Ones(torch.S(2), torch.RequiresGrad)
	half := torch.Ones(torch.S(2), torch.Float16, torch.RequiresGrad)
	opt, bad := optim.NewSGD([]*torch.Tensor{p}), optim.NewSGD([]*torch.Tensor{half})
	half.Sum().Backward()
	for want, f := range map[string]func(s *amp.GradScaler){
		"Update needs a Step or Unscale": func(s *amp.GradScaler) { s.Update() },
		"Unscale has been called":        func(s *amp.GradScaler) { s.Unscale(opt); s.Unscale(opt) },
		"Unscale is called after Step":   func(s *amp.GradScaler) { s.Step(opt); s.Unscale(opt) },
		"Step has been called":           func(s *amp.GradScaler) { s.Step(opt); s.Step(opt) },
		"keep the parameters in float32": func(s *amp.GradScaler) { s.Step(bad) },
		"the growth factor 1 must be":    func(*amp.GradScaler) { amp.NewGradScaler(amp.Options{GrowthFactor: 1}) },
	} {
		s := amp.NewGradScaler(amp.Options{})
		require.ErrorContains(t, torch.Try(func() { f(s) }), want)
	}
}

// TestAutocast compares result types and values with torch.autocast on the CPU.
func TestAutocast(t *testing.T) {
	line := func(a, b float64, shape ...int) *torch.Tensor {
		n := 1
		for _, s := range shape {
			n *= s
		}
		return torch.Linspace(a, b, n).Reshape(shape...)
	}
	x, y, v := line(-1, 1, 3, 4), line(0, 2, 4, 2), line(-2, 1, 4)
	img, k := line(-1, 1, 1, 2, 4, 4), line(-1, 1, 2, 2, 3, 3)
	xx := x.Unsqueeze(0)
	calls := map[string]func() *torch.Tensor{
		"matmul": func() *torch.Tensor { return x.Matmul(y) }, "linear": func() *torch.Tensor { return torch.Linear(x, y.T().Contiguous(), nil) },
		"conv2d": func() *torch.Tensor { return torch.Conv2d(img, k, nil, []int{1, 1}, []int{0, 0}, []int{1, 1}, 1) },
		"add":    func() *torch.Tensor { return x.Add(v) }, "softmax": func() *torch.Tensor { return x.Matmul(y).Softmax(1) },
		"mse_loss": func() *torch.Tensor { return x.Matmul(y).MseLoss(torch.Zeros(torch.S(3, 2)), torch.ReductionMean) },
		"exp":      func() *torch.Tensor { return x.Matmul(y).Exp() }, "layer_norm": func() *torch.Tensor { return torch.LayerNorm(x, []int{4}, nil, nil, 1e-5) },
		"cat":  func() *torch.Tensor { return torch.Cat([]*torch.Tensor{x.Matmul(y), torch.Zeros(torch.S(1, 2))}, 0) },
		"sdpa": func() *torch.Tensor { return torch.ScaledDotProductAttention(xx, xx, xx, nil, 0, false) },
	}
	for name, d := range map[string]torch.DType{"bfloat16": torch.BFloat16, "float16": torch.Float16} {
		want := golden(t).Autocast[name]
		require.Len(t, want, len(calls))
		for op, f := range calls {
			var r *torch.Tensor
			amp.Autocast(torch.DeviceCPU, d, func() { r = f() })
			require.Equal(t, want[op].DType, r.DType().String(), "%s under %s", op, name)
			got := torch.ToSlice[float64](r.ToDType(torch.Float64).Flatten(0, -1))
			for i, w := range want[op].First[:min(3, len(got))] {
				require.InDelta(t, w, got[i], 2e-2, "%s under %s", op, name)
			}
		}
	}
}

// Autocast belongs to its goroutine, nests, and ends with its function, also by a panic.
func TestAutocastScope(t *testing.T) {
	x := torch.Ones(torch.S(2, 2))
	amp.Autocast(torch.DeviceCPU, torch.BFloat16, func() {
		require.Equal(t, torch.BFloat16, x.Mm(x).DType())
		torch.WithoutAutocast(torch.DeviceCPU, func() { require.Equal(t, torch.Float32, x.Mm(x).DType()) })
		amp.Autocast(torch.DeviceCPU, torch.Float16, func() { require.Equal(t, torch.Float16, x.Mm(x).DType()) })
		require.Equal(t, torch.BFloat16, x.Mm(x).DType())
		other := make(chan torch.DType)
		go func() { other <- x.Mm(x).DType() }()
		require.Equal(t, torch.Float32, <-other)
		require.Error(t, torch.Try(func() {
			amp.Autocast(torch.DeviceCPU, torch.Float16, func() { x.Mm(torch.Ones(torch.S(3))) })
		}))
		on, d := torch.AutocastEnabled(torch.DeviceCPU)
		require.True(t, on)
		require.Equal(t, torch.BFloat16, d)
	})
	require.Equal(t, torch.Float32, x.Mm(x).DType())
	require.ErrorContains(t, torch.Try(func() { amp.Autocast(torch.DeviceCPU, torch.Float64, func() {}) }), "bfloat16 or float16")
	on, _ := torch.AutocastEnabled(torch.DeviceCPU)
	require.False(t, on)
}

// bfloat16 training on the CPU keeps float32 parameters and gradients.
func TestAutocastTrains(t *testing.T) {
	torch.ManualSeed(0)
	w := torch.Randn(torch.S(4, 1), torch.RequiresGrad)
	opt := optim.NewAdamW([]*torch.Tensor{w}, optim.LR(0.05), optim.WeightDecay(0))
	x := torch.Randn(torch.S(64, 4))
	y := x.SumDim([]int{1}, true)
	var first, last float64
	for i := range 200 {
		torch.Scope(func(*torch.Arena) {
			opt.ZeroGrad()
			var loss *torch.Tensor
			amp.Autocast(torch.DeviceCPU, torch.BFloat16, func() { loss = x.Matmul(w).MseLoss(y, torch.ReductionMean) })
			require.Equal(t, torch.Float32, loss.DType())
			loss.Backward()
			require.Equal(t, torch.Float32, w.Grad().DType())
			opt.Step()
			if last = loss.Item(); i == 0 {
				first = last
			}
		})
	}
	require.Less(t, last, first/50)
}
