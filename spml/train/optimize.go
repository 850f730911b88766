package train

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// newOptimizer makes the run's optimiser with a group for each learning rate.
func newOptimizer(c Config, groups []group) optim.Optimizer {
	var o optim.Optimizer
	for i, g := range groups {
		opts := []optim.Option{optim.LR(g.lr), optim.WeightDecay(c.WeightDecay)}
		if c.Optimizer == "sgd" {
			opts = append(opts, optim.Momentum(c.Momentum))
		}
		switch {
		case i > 0:
			o.AddGroup(g.params, opts...)
		case c.Optimizer == "sgd":
			o = optim.NewSGD(g.params, opts...)
		case c.Optimizer == "adamax":
			o = optim.NewAdamax(g.params, opts...)
		case c.Optimizer == "adamw":
			o = optim.NewAdamW(g.params, opts...)
		default:
			o = optim.NewAdam(g.params, opts...)
		}
	}
	return o
}

// freeze stops or starts the training of the backbone: frozen parameters have no gradients, so the optimiser leaves
// them.
func (t *trainer) freeze(on bool) {
	if t.body == 0 {
		return
	}
	for _, p := range t.step.Optimizer.Groups()[0].Params {
		if p.RequiresGrad() == on {
			p.SetRequiresGrad(!on)
		}
	}
}

// setRates moves the learning rates to where the schedule stands before the next step.
func (t *trainer) setRates() {
	if t.c.Schedule == "constant" && t.c.WarmupEpochs == 0 {
		return
	}
	warm := int(t.c.WarmupEpochs * float64(t.total/t.c.Epochs)) // of the steps of an epoch: a longer run warms up as long
	t.c.curve(t.total, warm).Set(t.step.Optimizer, t.rates, t.p.Step)
}

// curve is the schedule of a run of total steps, the first warm of which warm up.
func (c *Config) curve(total, warm int) optim.Curve {
	return optim.Curve{
		Kind: c.Schedule, Steps: total, Warmup: warm, Epochs: c.Epochs,
		PctStart: c.PctStart, Power: c.Power, Gamma: c.Gamma, StepEpochs: c.StepEpochs,
	}
}

// norm is the Euclidean norm of all elements.
func norm(t *torch.Tensor) float64 { return torch.ForeachNorm([]*torch.Tensor{t}, 2.0)[0].Item() }
