package optim

import "math"

// Curve is a schedule by its formula: the factor of the base learning rate at any step, so that a run that goes on
// needs no state. A [Schedule] steps from rate to rate as PyTorch's do; both give the same rates to rounding.
type Curve struct {
	Kind   string // constant, cosine, linear, polynomial, step, exponential, onecycle
	Steps  int    // of the run
	Warmup int    // first steps, in which the rate rises linearly to the base rate; onecycle has a rise of its own
	Epochs int    // of the run; step and exponential fall at the ends of epochs

	Power      float64 // of polynomial
	Gamma      float64 // factor of step and exponential
	StepEpochs int     // epochs between two falls of step
	PctStart   float64 // share of the steps in which onecycle rises
}

// At is the factor at a step counted from 0, and Adam's first beta, 0 where it stays as it is.
//
// cosine: ½(1 + cos(π·s/S)) after the warm-up; linear and polynomial: (1 - s/S)^p; step and exponential: γ to the
// number of falls. onecycle (Smith and Topin 2018): from 1/25 up to 1 in the share PctStart of the steps by a cosine,
// down to 1/250,000 in the rest, beta from 0.95 to 0.85 and back. All but the warm-up are torch's schedules of these
// names.
func (c Curve) At(step int) (factor, beta float64) {
	anneal := func(from, to, share float64) float64 { return to + (from-to)/2*(1+math.Cos(math.Pi*share)) }
	share, epoch := float64(step-c.Warmup)/float64(max(c.Steps-c.Warmup, 1)), step*c.Epochs/max(c.Steps, 1)
	switch {
	case c.Kind == "onecycle":
		up := c.PctStart*float64(c.Steps) - 1
		down := float64(c.Steps-1) - up
		if s := float64(step); up > 0 && s <= up {
			return anneal(1.0/25, 1, s/up), anneal(0.95, 0.85, s/up)
		} else {
			share := min((s-up)/down, 1)
			return anneal(1, 1.0/25/1e4, share), anneal(0.85, 0.95, share)
		}
	case step < c.Warmup:
		return float64(step+1) / float64(c.Warmup), 0
	case c.Kind == "cosine":
		return anneal(1, 0, share), 0
	case c.Kind == "linear":
		return 1 - share, 0
	case c.Kind == "polynomial":
		return math.Pow(1-share, c.Power), 0
	case c.Kind == "step":
		return math.Pow(c.Gamma, float64(epoch/c.StepEpochs)), 0
	case c.Kind == "exponential":
		return math.Pow(c.Gamma, float64(epoch)), 0
	}
	return 1, 0
}

// Set gives the groups of an optimizer the rates of a step: base are those that the factor multiplies, one for each
// group. Where the schedule moves it, Adam's first beta is set too.
func (c Curve) Set(opt Optimizer, base []float64, step int) {
	groups := opt.Groups()
	if len(base) != len(groups) {
		refuse("Curve", "got %d rates for %d groups", len(base), len(groups))
	}
	factor, beta := c.At(step)
	_, momentum := opt.(*SGD) // which has no betas
	for i, g := range groups {
		g.LR = base[i] * factor
		if beta > 0 && !momentum {
			g.Betas[0] = beta
		}
	}
}
