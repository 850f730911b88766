package optim

import (
	"math"
	"strings"
)

// OneCycle are the numbers of NewOneCycleLR; the zero value of a field stands for PyTorch's default.
type OneCycle struct {
	MaxLR          []float64 // the highest rate: one for all groups, or one for each
	TotalSteps     int
	PctStart       float64 // the part of the steps in which the rate rises; 0.3
	Linear         bool    // straight lines instead of cosines
	ConstMomentum  bool    // leaves momentum, or the first of Adam's betas, alone
	BaseMomentum   float64 // where the rate is highest; 0.85
	MaxMomentum    float64 // where it is lowest; 0.95
	DivFactor      float64 // the first rate is MaxLR/DivFactor; 25
	FinalDivFactor float64 // the last one is that divided by this; 1e4
	ThreePhase     bool    // falls to the first rate as fast as it rose, then to the last one
}

// NewOneCycleLR lets the rate rise to MaxLR and fall to almost nothing within TotalSteps steps, and cycles momentum (or the
// first beta) the other way (OneCycleLR; Smith and Topin 2018, arXiv:1708.07120). Step it after every batch. A step after the
// last one panics.
func NewOneCycleLR(opt Optimizer, o OneCycle) *Schedule {
	const op = "OneCycleLR"
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.PctStart, 0.3)
	def(&o.BaseMomentum, 0.85)
	def(&o.MaxMomentum, 0.95)
	def(&o.DivFactor, 25)
	def(&o.FinalDivFactor, 1e4)
	if o.TotalSteps < 1 || o.PctStart < 0 || o.PctStart > 1 {
		refuse(op, "TotalSteps %d must be positive, PctStart %v between 0 and 1", o.TotalSteps, o.PctStart)
	}
	o.MaxLR = perGroup(op, opt, o.MaxLR)
	n := float64(o.TotalSteps)
	type phase struct{ end, lr0, lr1, m0, m1 float64 }
	phases := make([][]phase, len(o.MaxLR))
	takes := " "
	if t, ok := opt.(interface{ options() string }); ok {
		takes = t.options()
	}
	first := strings.Contains(takes, " Betas ")
	if !o.ConstMomentum && !first && !strings.Contains(takes, " Momentum ") {
		refuse(op, "the optimizer has neither momentum nor betas to cycle; set ConstMomentum")
	}
	for i, g := range opt.Groups() {
		start := o.MaxLR[i] / o.DivFactor
		last := start / o.FinalDivFactor
		g.initial = &start
		up := phase{o.PctStart*n - 1, start, o.MaxLR[i], o.MaxMomentum, o.BaseMomentum}
		if o.ThreePhase {
			phases[i] = []phase{up, {2*o.PctStart*n - 2, o.MaxLR[i], start, o.BaseMomentum, o.MaxMomentum}, {n - 1, start, last, o.MaxMomentum, o.MaxMomentum}}
		} else {
			phases[i] = []phase{up, {n - 1, o.MaxLR[i], last, o.BaseMomentum, o.MaxMomentum}}
		}
	}
	between := func(a, b, at float64) float64 {
		if o.Linear {
			return (b-a)*at + a
		}
		return b + (a-b)/2*(math.Cos(math.Pi*at)+1)
	}
	return newSchedule(op, opt, func(s *Schedule, i int, _ float64) float64 {
		step, from := float64(s.lastEpoch), 0.0
		if s.lastEpoch > o.TotalSteps {
			refuse(op, "step %d of a schedule of %d steps", s.lastEpoch, o.TotalSteps)
		}
		var lr float64
		for k, p := range phases[i] {
			if step > p.end && k < len(phases[i])-1 {
				from = p.end
				continue
			}
			at := (step - from) / (p.end - from)
			lr = between(p.lr0, p.lr1, at)
			if !o.ConstMomentum {
				g := s.opt.Groups()[i]
				if m := between(p.m0, p.m1, at); first {
					g.Betas[0] = m
				} else {
					g.Momentum = m
				}
			}
			break
		}
		return lr
	}, nil)
}
