package train

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// TestRates compares the schedules with those of package optim, which are PyTorch's.
func TestRates(t *testing.T) {
	const total = 37
	run := func(schedule string, make func(o optim.Optimizer) optim.Scheduler) {
		c, err := config.Config{
			Data:     config.Data{Path: "x"},
			Method:   config.Method{ID: "an"},
			Schedule: config.Schedule{Name: schedule, Epochs: total},
		}.Resolve()
		require.NoError(t, err)
		p := torch.Zeros(torch.S(1), torch.Float32).SetRequiresGrad(true)
		o := optim.NewAdam([]*torch.Tensor{p}, optim.LR(2))
		s := make(o)
		for step := range total {
			g := o.Groups()[0]
			f, beta := curve(c.Schedule, total, 0).At(step)
			require.InDelta(t, g.LR, 2*f, 1e-12, "%s step %d", schedule, step)
			if beta > 0 {
				require.InDelta(t, g.Betas[0], beta, 1e-12, "%s step %d", schedule, step)
			}
			o.Step()
			if step < total-1 {
				s.Step()
			}
		}
	}
	run("onecycle", func(o optim.Optimizer) optim.Scheduler {
		return optim.NewOneCycleLR(o, optim.OneCycle{TotalSteps: total, MaxLR: []float64{2}})
	})
	run("cosine", func(o optim.Optimizer) optim.Scheduler { return optim.NewCosineAnnealingLR(o, total, 0) })
	run("constant", func(o optim.Optimizer) optim.Scheduler { return optim.NewConstantLR(o, 1, 1) })
	run("linear", func(o optim.Optimizer) optim.Scheduler { return optim.NewPolynomialLR(o, total, 1) })
	run("polynomial", func(o optim.Optimizer) optim.Scheduler { return optim.NewPolynomialLR(o, total, 2) })
	run("step", func(o optim.Optimizer) optim.Scheduler { return optim.NewStepLR(o, total/3, 0.1) })
	run("exponential", func(o optim.Optimizer) optim.Scheduler { return optim.NewExponentialLR(o, 0.9) })
	// none rises above 1 or falls below 0, with a warm-up too, and epochs of several steps
	for _, schedule := range []string{"constant", "cosine", "onecycle", "linear", "polynomial", "step", "exponential"} {
		c, err := config.Config{
			Data:     config.Data{Path: "x"},
			Method:   config.Method{ID: "an"},
			Schedule: config.Schedule{Name: schedule, Epochs: 7, WarmupEpochs: 1},
		}.Resolve()
		require.NoError(t, err)
		for step := range 70 {
			f, _ := curve(c.Schedule, 70, 10).At(step)
			require.True(t, f >= 0 && f <= 1, "%s step %d: %v", schedule, step, f)
		}
	}
	_, err := config.Config{
		Data:     config.Data{Path: "x"},
		Method:   config.Method{ID: "an"},
		Schedule: config.Schedule{Gamma: 0.5},
	}.Resolve()
	require.ErrorContains(t, err, "gamma is of --schedule step, exponential")
	c := config.Schedule{Name: "cosine", Epochs: 10}
	f, _ := curve(c, 100, 10).At(0)
	require.Equal(t, 0.1, f)
	f, _ = curve(c, 100, 10).At(55)
	require.InDelta(t, 0.5*(1+math.Cos(math.Pi/2)), f, 1e-12)
}
