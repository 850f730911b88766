package train

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

func TestEverySettingHasADocumentation(t *testing.T) {
	all := Settings()
	require.Len(t, settingDocs, len(all))
	for _, s := range all {
		require.NotEmpty(t, s.Doc, s.Key)
	}
}

func TestGuesses(t *testing.T) {
	for key, want := range map[string]string{"epoch": "epochs", "bacth_size": "batch_size", "learning": "", "lr_head": "", "max-steps": "max_steps", "sede": "seed"} {
		err := CheckKey(key)
		require.ErrorContains(t, err, key)
		if want != "" {
			require.ErrorContains(t, err, "did you mean \""+want+"\"?")
		}
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	m := map[string]any{}
	for key, text := range map[string]string{"data": "shapes", "lr": "1e-4", "seed": "7", "flip": "true", "params": "alpha=0.1,beta=2", "epochs": "3", "data_seed": "9"} {
		v, err := ParseSetting(key, text)
		require.NoError(t, err)
		m[key] = v
	}
	c, err := FromSettings(m)
	require.NoError(t, err)
	require.True(t, *c.Flip)
	require.Equal(t, uint32(9), *c.DataSeed)
	require.Equal(t, 1e-4, c.LR)
	require.Equal(t, map[string]float64{"alpha": 0.1, "beta": 2}, c.Params)
	for _, x := range []struct{ key, text string }{{"lr", "much"}, {"epochs", "1.5"}, {"seed", "-1"}, {"flip", "perhaps"}, {"params", "a"}, {"lrr", "1"}} {
		_, err := ParseSetting(x.key, x.text)
		require.Error(t, err, x.key)
	}
}

// TestRates compares the schedules with those of package optim, which are PyTorch's.
func TestRates(t *testing.T) {
	const total = 37
	run := func(schedule string, make func(o optim.Optimizer) optim.Scheduler) {
		c, err := Config{Data: "x", Method: "an", Schedule: schedule, Epochs: total}.Resolve()
		require.NoError(t, err)
		p := torch.Zeros(torch.S(1), torch.Float32).SetRequiresGrad(true)
		o := optim.NewAdam([]*torch.Tensor{p}, optim.LR(2))
		s := make(o)
		for step := range total {
			g := o.Groups()[0]
			f, beta := c.curve(total, 0).At(step)
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
	for _, schedule := range schedules { // none rises above 1 or falls below 0, with a warm-up too, and epochs of several steps
		c, err := Config{Data: "x", Method: "an", Schedule: schedule, Epochs: 7, WarmupEpochs: 1}.Resolve()
		require.NoError(t, err)
		for step := range 70 {
			f, _ := c.curve(70, 10).At(step)
			require.True(t, f >= 0 && f <= 1, "%s step %d: %v", schedule, step, f)
		}
	}
	_, err := Config{Data: "x", Method: "an", Gamma: 0.5}.Resolve()
	require.ErrorContains(t, err, "gamma is of --schedule step, exponential")
	c := Config{Schedule: "cosine", Epochs: 10}
	f, _ := c.curve(100, 10).At(0)
	require.Equal(t, 0.1, f)
	f, _ = c.curve(100, 10).At(55)
	require.InDelta(t, 0.5*(1+math.Cos(math.Pi/2)), f, 1e-12)
}
