package train

import (
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// newOptimizer makes the run's optimiser with a group for each learning rate.
func newOptimizer(c config.Config, groups []group) optim.Optimizer {
	var o optim.Optimizer
	for i, g := range groups {
		opts := []optim.Option{optim.LR(g.lr), optim.WeightDecay(c.Optim.WeightDecay)}
		if c.Optim.Name == "sgd" {
			opts = append(opts, optim.Momentum(c.Optim.Momentum))
		}
		switch {
		case i > 0:
			o.AddGroup(g.params, opts...)
		case c.Optim.Name == "sgd":
			o = optim.NewSGD(g.params, opts...)
		case c.Optim.Name == "adamax":
			o = optim.NewAdamax(g.params, opts...)
		case c.Optim.Name == "adamw":
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
	if t.c.Schedule.Name == "constant" && t.c.Schedule.WarmupEpochs == 0 {
		return
	}
	s := t.c.Schedule
	warm := int(s.WarmupEpochs * float64(t.total/s.Epochs)) // of the steps of an epoch: a longer run warms up as long
	curve(s, t.total, warm).Set(t.step.Optimizer, t.rates, t.p.Step)
}

// curve is the schedule of a run of total steps, the first warm of which warm up.
func curve(s config.Schedule, total, warm int) optim.Curve {
	return optim.Curve{
		Kind: s.Name, Steps: total, Warmup: warm, Epochs: s.Epochs,
		PctStart: s.PctStart, Power: s.Power, Gamma: s.Gamma, StepEpochs: s.StepEpochs,
	}
}

// norm is the Euclidean norm of all elements.
func norm(t *torch.Tensor) float64 { return torch.ForeachNorm([]*torch.Tensor{t}, 2.0)[0].Item() }
