package optim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// schedules are those of testdata/nn/make.py.
var schedules = map[string]func(o optim.Optimizer) []optim.Scheduler{
	"lambda": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewLambdaLR(o, func(e int) float64 { return math.Pow(0.9, float64(e)) }, func(e int) float64 { return 1 / float64(1+e) })
	}),
	"multiplicative": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewMultiplicativeLR(o, func(e int) float64 { return 1 - 0.01*float64(e) })
	}),
	"step":          one(func(o optim.Optimizer) optim.Scheduler { return optim.NewStepLR(o, 7, 0.3) }),
	"multistep":     one(func(o optim.Optimizer) optim.Scheduler { return optim.NewMultiStepLR(o, []int{3, 10, 10, 21}, 0.5) }),
	"constant":      one(func(o optim.Optimizer) optim.Scheduler { return optim.NewConstantLR(o, 0.25, 6) }),
	"linear":        one(func(o optim.Optimizer) optim.Scheduler { return optim.NewLinearLR(o, 1.0/3, 1, 8) }),
	"linear_down":   one(func(o optim.Optimizer) optim.Scheduler { return optim.NewLinearLR(o, 0.9, 0.1, 15) }),
	"exponential":   one(func(o optim.Optimizer) optim.Scheduler { return optim.NewExponentialLR(o, 0.93) }),
	"polynomial":    one(func(o optim.Optimizer) optim.Scheduler { return optim.NewPolynomialLR(o, 25, 1.7) }),
	"cosine":        one(func(o optim.Optimizer) optim.Scheduler { return optim.NewCosineAnnealingLR(o, 12, 0.003) }),
	"cosine_long":   one(func(o optim.Optimizer) optim.Scheduler { return optim.NewCosineAnnealingLR(o, 40, 0) }),
	"restarts":      one(func(o optim.Optimizer) optim.Scheduler { return optim.NewCosineAnnealingWarmRestarts(o, 5, 2, 0.001) }),
	"restarts_even": one(func(o optim.Optimizer) optim.Scheduler { return optim.NewCosineAnnealingWarmRestarts(o, 6, 1, 0) }),
	"onecycle": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewOneCycleLR(o, optim.OneCycle{MaxLR: []float64{0.1, 0.3}, TotalSteps: 40})
	}),
	"onecycle_linear": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewOneCycleLR(o, optim.OneCycle{MaxLR: []float64{0.2}, TotalSteps: 40, PctStart: 0.4, Linear: true, ThreePhase: true, DivFactor: 10, FinalDivFactor: 50, BaseMomentum: 0.8, MaxMomentum: 0.9})
	}),
	"onecycle_plain": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewOneCycleLR(o, optim.OneCycle{MaxLR: []float64{0.2}, TotalSteps: 45, ConstMomentum: true, PctStart: 0.1})
	}),
	"warmup_cosine": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewSequentialLR(o, []*optim.Schedule{optim.NewLinearLR(o, 0.01, 1, 5), optim.NewCosineAnnealingLR(o, 30, 0)}, []int{5})
	}),
	"sequence": one(func(o optim.Optimizer) optim.Scheduler {
		return optim.NewSequentialLR(o, []*optim.Schedule{
			optim.NewConstantLR(o, 0.1, 4), optim.NewStepLR(o, 5, 0.5), optim.NewExponentialLR(o, 0.9), optim.NewCosineAnnealingWarmRestarts(o, 4, 1, 0), optim.NewMultiStepLR(o, []int{2, 3}, 0.2),
		}, []int{4, 16, 22, 33})
	}),
	"chained": func(o optim.Optimizer) []optim.Scheduler {
		return []optim.Scheduler{optim.NewLinearLR(o, 0.2, 1, 6), optim.NewExponentialLR(o, 0.95)}
	},
}

func one(f func(o optim.Optimizer) optim.Scheduler) func(optim.Optimizer) []optim.Scheduler {
	return func(o optim.Optimizer) []optim.Scheduler { return []optim.Scheduler{f(o)} }
}

type scheduleCase struct {
	Name      string      `json:"name"`
	Optimizer string      `json:"optimizer"`
	LR        [][]float64 `json:"lr"`
	Momentum  [][]float64 `json:"momentum"`
	LastLR    [][]float64 `json:"last_lr"`
}

func scheduled(kind string) optim.Optimizer {
	var o optim.Optimizer
	if kind == "SGD" {
		o = optim.NewSGD([]*torch.Tensor{param(1)}, optim.LR(0.1), optim.Momentum(0.9))
	} else {
		o = optim.NewAdam([]*torch.Tensor{param(1)}, optim.LR(0.1), optim.Betas(0.8, 0.99))
	}
	o.AddGroup([]*torch.Tensor{param(1)}, optim.LR(0.4))
	return o
}

func rates(o optim.Optimizer, kind string) (lr, momentum []float64) {
	for _, g := range o.Groups() {
		lr = append(lr, g.LR)
		if kind == "SGD" {
			momentum = append(momentum, g.Momentum)
		} else {
			momentum = append(momentum, g.Betas[0])
		}
	}
	return lr, momentum
}

// TestSchedules compares every schedule with torch.optim.lr_scheduler, step by step; half way it goes through a checkpoint.
func TestSchedules(t *testing.T) {
	var file struct {
		Cases []scheduleCase `json:"cases"`
	}
	golden(t, "schedules.json", &file)
	require.Len(t, file.Cases, 2*len(schedules))
	for _, c := range file.Cases {
		t.Run(c.Name+"/"+c.Optimizer, func(t *testing.T) {
			o := scheduled(c.Optimizer)
			ss := schedules[c.Name](o)
			for step := range c.LR {
				what := fmt.Sprintf("step %d", step)
				lr, momentum := rates(o, c.Optimizer)
				require.InDeltaSlice(t, c.LR[step], lr, 1e-13, what)
				require.InDeltaSlice(t, c.Momentum[step], momentum, 1e-13, what)
				if c.Name != "chained" || step > 0 { // Python's knows the last one's only
					require.InDeltaSlice(t, c.LastLR[step], ss[len(ss)-1].LR(), 1e-13, what)
				}
				require.Equal(t, step, ss[0].LastEpoch()+0, what)
				if step == 17 {
					o, ss = resumed(t, c, o, ss)
				}
				for _, s := range ss {
					s.Step()
				}
			}
		})
	}
}

func resumed(t *testing.T, c scheduleCase, o optim.Optimizer, ss []optim.Scheduler) (optim.Optimizer, []optim.Scheduler) {
	o2 := scheduled(c.Optimizer)
	ss2 := schedules[c.Name](o2)
	for i, s := range ss {
		b, err := json.Marshal(s.StateDict())
		require.NoError(t, err)
		var st optim.ScheduleState
		require.NoError(t, json.Unmarshal(b, &st))
		require.NoError(t, ss2[i].LoadStateDict(st))
		st.Kind = "Other"
		require.Error(t, ss2[i].LoadStateDict(st))
	}
	require.NoError(t, o2.LoadStateDict(o.StateDict()))
	return o2, ss2
}

func TestReduceLROnPlateau(t *testing.T) {
	var file struct {
		Plateau []struct {
			Options struct {
				Mode          string  `json:"mode"`
				Factor        float64 `json:"factor"`
				Patience      int     `json:"patience"`
				Threshold     float64 `json:"threshold"`
				ThresholdMode string  `json:"threshold_mode"`
				Cooldown      int     `json:"cooldown"`
				MinLR         float64 `json:"min_lr"`
				Eps           float64 `json:"eps"`
			} `json:"options"`
			Metrics []float64   `json:"metrics"`
			LR      [][]float64 `json:"lr"`
		} `json:"plateau"`
	}
	golden(t, "schedules.json", &file)
	require.Len(t, file.Plateau, 4)
	for i, c := range file.Plateau {
		p := c.Options
		make := func(o optim.Optimizer) *optim.ReduceLROnPlateau {
			return optim.NewReduceLROnPlateau(o, optim.Plateau{Max: p.Mode == "max", Factor: p.Factor, Patience: p.Patience, Threshold: p.Threshold, Absolute: p.ThresholdMode == "abs", Cooldown: p.Cooldown, MinLR: p.MinLR, Eps: p.Eps})
		}
		o := scheduled("SGD")
		s := make(o)
		for step, m := range c.Metrics {
			if step == 30 {
				b, err := json.Marshal(s.StateDict())
				require.NoError(t, err)
				var st optim.ScheduleState
				require.NoError(t, json.Unmarshal(b, &st))
				s = make(o)
				require.NoError(t, s.LoadStateDict(st))
			}
			s.Step(m)
			require.InDeltaSlice(t, c.LR[step], s.LR(), 1e-15, "case %d, step %d", i, step)
		}
		require.Equal(t, len(c.Metrics), s.LastEpoch())
	}
}

func TestScheduleErrors(t *testing.T) {
	o, other := scheduled("SGD"), scheduled("SGD")
	cycle := optim.NewOneCycleLR(scheduled("SGD"), optim.OneCycle{MaxLR: []float64{1}, TotalSteps: 2})
	for want, f := range map[string]func(){
		"step_size must be positive":      func() { optim.NewStepLR(o, 0, 0.1) },
		"got 3 values for 2 groups":       func() { optim.NewOneCycleLR(o, optim.OneCycle{MaxLR: []float64{1, 2, 3}, TotalSteps: 5}) },
		"TotalSteps 0 must be positive":   func() { optim.NewOneCycleLR(o, optim.OneCycle{MaxLR: []float64{1}}) },
		"step 3 of a schedule of 2 steps": func() { cycle.Step(); cycle.Step(); cycle.Step() },
		"2 schedules need 1 milestones": func() {
			optim.NewSequentialLR(o, []*optim.Schedule{optim.NewStepLR(o, 1, 1), optim.NewStepLR(o, 1, 1)}, nil)
		},
		"schedule 0 belongs to another": func() { optim.NewSequentialLR(o, []*optim.Schedule{optim.NewStepLR(other, 1, 1)}, nil) },
		"has neither momentum nor betas": func() {
			optim.NewOneCycleLR(optim.NewAdagrad([]*torch.Tensor{param(1)}), optim.OneCycle{MaxLR: []float64{1}, TotalSteps: 5})
		},
		"the factor must be below 1":         func() { optim.NewReduceLROnPlateau(o, optim.Plateau{Factor: 1}) },
		"it had 2 when the schedule was mad": func() { s := optim.NewStepLR(other, 1, 1); other.AddGroup([]*torch.Tensor{param(2)}); s.Step() },
	} {
		require.ErrorContains(t, torch.Try(f), want)
	}
}

// TestClipping compares with torch.nn.utils.
func TestClipping(t *testing.T) {
	var file struct {
		Cases []struct {
			DType  string  `json:"dtype"`
			Kind   string  `json:"kind"`
			Norm   float64 `json:"norm"`
			Limit  float64 `json:"limit"`
			Total  float64 `json:"total"`
			Before []array `json:"before"`
			After  []array `json:"after"`
		} `json:"cases"`
	}
	golden(t, "clipping.json", &file)
	require.Len(t, file.Cases, 12)
	for _, c := range file.Cases {
		d := map[string]torch.DType{"float32": torch.Float32, "float64": torch.Float64}[c.DType]
		tol := map[string]float64{"float32": 1e-6, "float64": 1e-14}[c.DType]
		ps := []*torch.Tensor{torch.Zeros(torch.S(2), d, torch.RequiresGrad)} // has no gradient
		for _, g := range c.Before {
			p := torch.Zeros(g.Shape, d, torch.RequiresGrad)
			p.SetGrad(torch.FromSlice(g.Data).Reshape(g.Shape...).ToDType(d))
			ps = append(ps, p)
		}
		if c.Kind == "value" {
			optim.ClipGradValue(ps, c.Limit)
		} else {
			norm := c.Norm
			if norm < 0 {
				norm = math.Inf(1)
			}
			require.InEpsilon(t, c.Total, optim.ClipGradNorm(ps, c.Limit, norm).Item(), tol)
		}
		for i, g := range c.After {
			g.close(t, ps[i+1].Grad(), tol, fmt.Sprintf("%s %v", c.Kind, c.Norm))
		}
	}
	require.Zero(t, optim.ClipGradNorm([]*torch.Tensor{param(1)}, 1, 2).Item())
}
