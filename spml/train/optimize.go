package train

import (
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
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
	f, beta := t.c.rate(t.p.Step, t.total, warm)
	for i, g := range t.step.Optimizer.Groups() {
		g.LR = t.rates[i] * f
		if beta > 0 && t.c.Optimizer != "sgd" {
			g.Betas[0] = beta
		}
	}
}

// rate is the factor of the learning rate at a step counted from 0, and Adam's first beta, 0 where it stays as it is.
//
// cosine: ½(1 + cos(π·s/S)) after the warm-up; linear and polynomial: (1 - s/S)^p; step and exponential: γ to the
// number of falls, which are at the ends of epochs, as torch's schedules of these names. onecycle is torch's OneCycleLR
// (Smith and Topin 2018): from 1/25 up to 1 in the share pct of the steps by a cosine, down to 1/250,000 in the rest,
// beta from 0.95 to 0.85 and back.
func (c *Config) rate(step, total, warm int) (factor, beta float64) {
	anneal := func(from, to, share float64) float64 { return to + (from-to)/2*(1+math.Cos(math.Pi*share)) }
	share, epoch := float64(step-warm)/float64(max(total-warm, 1)), step*c.Epochs/max(total, 1)
	switch {
	case c.Schedule == "onecycle":
		up := c.PctStart*float64(total) - 1
		down := float64(total-1) - up
		if s := float64(step); up > 0 && s <= up {
			return anneal(1.0/25, 1, s/up), anneal(0.95, 0.85, s/up)
		} else {
			share := min((s-up)/down, 1)
			return anneal(1, 1.0/25/1e4, share), anneal(0.85, 0.95, share)
		}
	case step < warm:
		return float64(step+1) / float64(warm), 0
	case c.Schedule == "cosine":
		return anneal(1, 0, share), 0
	case c.Schedule == "linear":
		return 1 - share, 0
	case c.Schedule == "polynomial":
		return math.Pow(1-share, c.Power), 0
	case c.Schedule == "step":
		return math.Pow(c.Gamma, float64(epoch/c.StepEpochs)), 0
	case c.Schedule == "exponential":
		return math.Pow(c.Gamma, float64(epoch)), 0
	}
	return 1, 0
}

// average is a running average of the weights, and of the statistics of batch normalisation.
type average struct {
	decay         float64
	model, shadow nn.StateDict // of the floating-point tensors
}

func newAverage(sd nn.StateDict, decay float64) *average {
	a := &average{decay: decay, model: nn.StateDict{}, shadow: nn.StateDict{}}
	torch.NoGrad(func() {
		for k, t := range sd {
			if t.DType().IsFloat() {
				a.model[k], a.shadow[k] = t, t.Detach().Clone()
			}
		}
	})
	return a
}

func (a *average) update() {
	torch.NoGrad(func() { torch.ForeachLerp_(a.shadow.Tensors(), detached(a.model), 1-a.decay) })
}

func detached(sd nn.StateDict) []*torch.Tensor {
	var ts []*torch.Tensor
	for _, t := range sd.Tensors() {
		ts = append(ts, t.Detach())
	}
	return ts
}

// swap puts the average into the model and the model's weights aside, or back.
func (a *average) swap() {
	torch.NoGrad(func() {
		torch.Scope(func(*torch.Arena) {
			for k, m := range a.model {
				s := a.shadow[k]
				keep := m.Detach().Clone()
				m.Detach().Copy_(s)
				s.Copy_(keep)
			}
		})
	})
}

// norm is the Euclidean norm of all elements.
func norm(t *torch.Tensor) float64 { return torch.ForeachNorm([]*torch.Tensor{t}, 2.0)[0].Item() }
