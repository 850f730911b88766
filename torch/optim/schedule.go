package optim

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Scheduler changes learning rates from step to step. Making one sets the rates of the first step; Step, after the
// optimizer's Step, sets those of the next. Step counts whatever the caller counts: epochs or batches.
type Scheduler interface {
	Step()
	// LR are the learning rates that were set last, one for each group.
	LR() []float64
	// LastEpoch is how many Steps were made.
	LastEpoch() int
	// StateDict and LoadStateDict are for checkpoints, beside those of the optimizer, which hold the rates themselves.
	StateDict() ScheduleState
	LoadStateDict(s ScheduleState) error
}

// ScheduleState is what a schedule remembers; encoding/json writes and reads it exactly.
type ScheduleState struct {
	Kind      string          `json:"kind"`
	LastEpoch int             `json:"last_epoch"`
	StepCount int             `json:"_step_count,omitempty"`
	BaseLRs   []float64       `json:"base_lrs,omitempty"`
	LastLR    []float64       `json:"_last_lr"`
	TCur      int             `json:"T_cur,omitempty"`
	TI        int             `json:"T_i,omitempty"`
	Best      string          `json:"best,omitempty"` // of ReduceLROnPlateau, in %g so that infinity can be written
	BadEpochs int             `json:"num_bad_epochs,omitempty"`
	Cooldown  int             `json:"cooldown_counter,omitempty"`
	Inner     []ScheduleState `json:"_schedulers,omitempty"`
}

// Schedule is a Scheduler whose rates follow from the number of steps. The New…LR functions make it with the formulas of
// torch.optim.lr_scheduler, which compute a rate from the one before, so that several schedules can act on one optimizer.
type Schedule struct {
	kind      string
	opt       Optimizer
	base      []float64 // rates from which the schedule starts
	lastEpoch int
	stepCount int
	initial   bool // the constructor's step is running
	last      []float64
	tCur, tI  int // NewCosineAnnealingWarmRestarts

	advance func(s *Schedule)                            // moves to the next epoch; nil: lastEpoch++
	next    func(s *Schedule, i int, lr float64) float64 // rate of group i, whose rate was lr
	closed  func(s *Schedule, i int) float64             // the same from lastEpoch alone; nil where there is no such form
}

func newSchedule(kind string, opt Optimizer, next func(s *Schedule, i int, lr float64) float64, closed func(s *Schedule, i int) float64) *Schedule {
	s := &Schedule{kind: kind, opt: opt, lastEpoch: -1, next: next, closed: closed}
	s.begin()
	return s
}

// begin remembers the base rates and sets the first ones.
func (s *Schedule) begin() {
	for _, g := range s.opt.Groups() {
		if g.initial == nil {
			lr := g.LR
			g.initial = &lr
		}
		s.base = append(s.base, *g.initial)
	}
	s.first()
}

// first is the constructor's step.
func (s *Schedule) first() {
	s.stepCount, s.initial = 0, true
	s.Step()
	s.initial = false
}

// Step sets the rates of the next step.
func (s *Schedule) Step() {
	s.stepCount++
	if s.advance != nil {
		s.advance(s)
	} else {
		s.lastEpoch++
	}
	s.set(func(i int, lr float64) float64 { return s.next(s, i, lr) })
}

// restart sets the rates of epoch 0.
func (s *Schedule) restart() {
	s.lastEpoch = 0
	s.set(func(i int, lr float64) float64 {
		if s.closed != nil {
			return s.closed(s, i)
		}
		return s.next(s, i, lr)
	})
}

func (s *Schedule) set(rate func(i int, lr float64) float64) {
	groups := s.opt.Groups()
	if len(groups) != len(s.base) {
		refuse(s.kind, "the optimizer has %d groups, it had %d when the schedule was made", len(groups), len(s.base))
	}
	s.last = s.last[:0]
	for i, g := range groups {
		g.LR = rate(i, g.LR)
		s.last = append(s.last, g.LR)
	}
}

// LR are the learning rates that were set last.
func (s *Schedule) LR() []float64 { return slices.Clone(s.last) }

// LastEpoch is how many Steps were made.
func (s *Schedule) LastEpoch() int { return s.lastEpoch }

// StateDict collects what the schedule remembers.
func (s *Schedule) StateDict() ScheduleState {
	return ScheduleState{Kind: s.kind, LastEpoch: s.lastEpoch, StepCount: s.stepCount, BaseLRs: slices.Clone(s.base), LastLR: s.LR(), TCur: s.tCur, TI: s.tI}
}

// LoadStateDict continues where the state was taken. The formula's numbers are those of the constructor.
func (s *Schedule) LoadStateDict(st ScheduleState) error {
	if st.Kind != s.kind || len(st.BaseLRs) != len(s.base) {
		return fmt.Errorf("optim: the state is of a schedule %q for %d groups, this one is %q for %d", st.Kind, len(st.BaseLRs), s.kind, len(s.base))
	}
	s.base, s.last = slices.Clone(st.BaseLRs), slices.Clone(st.LastLR)
	s.lastEpoch, s.stepCount, s.tCur, s.tI = st.LastEpoch, st.StepCount, st.TCur, st.TI
	return nil
}

// NewLambdaLR multiplies the base rate of each group with f(epoch): one f for all groups, or one for each (LambdaLR).
func NewLambdaLR(opt Optimizer, f ...func(epoch int) float64) *Schedule {
	f = perGroup("lambda", opt, f)
	at := func(s *Schedule, i int) float64 { return s.base[i] * f[i](s.lastEpoch) }
	return newSchedule("LambdaLR", opt, func(s *Schedule, i int, _ float64) float64 { return at(s, i) }, at)
}

// NewMultiplicativeLR multiplies the rate of each group with f(epoch) at every step (MultiplicativeLR).
func NewMultiplicativeLR(opt Optimizer, f ...func(epoch int) float64) *Schedule {
	f = perGroup("multiplicative", opt, f)
	return newSchedule("MultiplicativeLR", opt, func(s *Schedule, i int, lr float64) float64 {
		if s.initial {
			return lr
		}
		return lr * f[i](s.lastEpoch)
	}, nil)
}

// perGroup repeats a single value for every group.
func perGroup[T any](what string, opt Optimizer, v []T) []T {
	n := len(opt.Groups())
	if len(v) == 1 {
		return slices.Repeat(v, n)
	}
	if len(v) != n {
		refuse(what, "got %d values for %d groups", len(v), n)
	}
	return v
}

// NewStepLR multiplies the rate with gamma every stepSize steps (StepLR).
func NewStepLR(opt Optimizer, stepSize int, gamma float64) *Schedule {
	if stepSize < 1 {
		refuse("StepLR", "step_size must be positive, not %d", stepSize)
	}
	return newSchedule("StepLR", opt, func(s *Schedule, _ int, lr float64) float64 {
		if s.lastEpoch == 0 || s.lastEpoch%stepSize != 0 {
			return lr
		}
		return lr * gamma
	}, func(s *Schedule, i int) float64 { return s.base[i] * math.Pow(gamma, float64(s.lastEpoch/stepSize)) })
}

// NewMultiStepLR multiplies the rate with gamma at each milestone; one that is named twice counts twice (MultiStepLR).
func NewMultiStepLR(opt Optimizer, milestones []int, gamma float64) *Schedule {
	at := slices.Clone(milestones)
	sort.Ints(at)
	return newSchedule("MultiStepLR", opt, func(s *Schedule, _ int, lr float64) float64 {
		n := 0
		for _, m := range at {
			if m == s.lastEpoch {
				n++
			}
		}
		if n == 0 {
			return lr
		}
		return lr * math.Pow(gamma, float64(n))
	}, func(s *Schedule, i int) float64 {
		return s.base[i] * math.Pow(gamma, float64(sort.SearchInts(at, s.lastEpoch+1)))
	})
}

// NewConstantLR multiplies the base rate with factor for the first totalIters steps (ConstantLR).
func NewConstantLR(opt Optimizer, factor float64, totalIters int) *Schedule {
	if factor < 0 || factor > 1 {
		refuse("ConstantLR", "the factor must be between 0 and 1, not %v", factor)
	}
	return newSchedule("ConstantLR", opt, func(s *Schedule, _ int, lr float64) float64 {
		switch s.lastEpoch {
		case 0:
			return lr * factor
		case totalIters:
			return lr * (1 / factor)
		}
		return lr
	}, func(s *Schedule, i int) float64 {
		if s.lastEpoch >= totalIters {
			return s.base[i] * (factor + (1 - factor))
		}
		return s.base[i] * factor
	})
}

// NewLinearLR changes the factor on the base rate linearly from start to end within totalIters steps: a warm-up (LinearLR).
func NewLinearLR(opt Optimizer, start, end float64, totalIters int) *Schedule {
	if !(start > 0 && start <= 1) || !(end >= 0 && end <= 1) || totalIters < 1 {
		refuse("LinearLR", "start %v must be in (0, 1], end %v in [0, 1], total_iters %d positive", start, end, totalIters)
	}
	n := float64(totalIters)
	return newSchedule("LinearLR", opt, func(s *Schedule, _ int, lr float64) float64 {
		if s.lastEpoch == 0 {
			return lr * start
		}
		if s.initial || s.lastEpoch > totalIters {
			return lr
		}
		return lr * (1 + (end-start)/(n*start+float64(s.lastEpoch-1)*(end-start)))
	}, func(s *Schedule, i int) float64 {
		return s.base[i] * (start + (end-start)*float64(min(totalIters, s.lastEpoch))/n)
	})
}

// NewExponentialLR multiplies the rate with gamma at every step (ExponentialLR).
func NewExponentialLR(opt Optimizer, gamma float64) *Schedule {
	return newSchedule("ExponentialLR", opt, func(s *Schedule, _ int, lr float64) float64 {
		if s.initial {
			return lr
		}
		return lr * gamma
	}, func(s *Schedule, i int) float64 { return s.base[i] * math.Pow(gamma, float64(s.lastEpoch)) })
}

// NewPolynomialLR lets the rate fall to zero as (1 - epoch/totalIters)^power (PolynomialLR).
func NewPolynomialLR(opt Optimizer, totalIters int, power float64) *Schedule {
	if totalIters < 1 {
		refuse("PolynomialLR", "total_iters must be positive, not %d", totalIters)
	}
	n := float64(totalIters)
	return newSchedule("PolynomialLR", opt, func(s *Schedule, _ int, lr float64) float64 {
		if s.initial || s.lastEpoch > totalIters {
			return lr
		}
		e := float64(s.lastEpoch)
		return lr * math.Pow((1-e/n)/(1-(e-1)/n), power)
	}, func(s *Schedule, i int) float64 {
		return s.base[i] * math.Pow(1-float64(min(totalIters, s.lastEpoch))/n, power)
	})
}

// NewCosineAnnealingLR lets the rate fall from the base rate to etaMin along half a cosine in tMax steps, and rise again
// (CosineAnnealingLR; Loshchilov and Hutter 2017, arXiv:1608.03983).
func NewCosineAnnealingLR(opt Optimizer, tMax int, etaMin float64) *Schedule {
	if tMax < 1 {
		refuse("CosineAnnealingLR", "T_max must be positive, not %d", tMax)
	}
	n := float64(tMax)
	closed := func(s *Schedule, i int) float64 {
		return etaMin + (s.base[i]-etaMin)*(1+math.Cos(math.Pi*float64(s.lastEpoch)/n))/2
	}
	return newSchedule("CosineAnnealingLR", opt, func(s *Schedule, i int, lr float64) float64 {
		e := float64(s.lastEpoch)
		switch {
		case s.initial:
			return lr
		case s.stepCount == 1 && s.lastEpoch > 0:
			return closed(s, i)
		case (s.lastEpoch-1-tMax)%(2*tMax) == 0:
			return lr + (s.base[i]-etaMin)*(1-math.Cos(math.Pi/n))/2
		}
		return (1+math.Cos(math.Pi*e/n))/(1+math.Cos(math.Pi*(e-1)/n))*(lr-etaMin) + etaMin
	}, closed)
}

// NewCosineAnnealingWarmRestarts is cosine annealing that starts again after t0 steps, then after tMult times as many as
// before (CosineAnnealingWarmRestarts).
func NewCosineAnnealingWarmRestarts(opt Optimizer, t0, tMult int, etaMin float64) *Schedule {
	if t0 < 1 || tMult < 1 {
		refuse("CosineAnnealingWarmRestarts", "T_0 %d and T_mult %d must be positive", t0, tMult)
	}
	s := &Schedule{
		kind: "CosineAnnealingWarmRestarts", opt: opt, lastEpoch: -1,
		advance: func(s *Schedule) {
			if s.lastEpoch < 0 {
				s.lastEpoch, s.tCur, s.tI = 0, 0, t0
				return
			}
			s.lastEpoch++
			if s.tCur++; s.tCur >= s.tI {
				s.tCur, s.tI = s.tCur%s.tI, s.tI*tMult
			}
		},
		next: func(s *Schedule, i int, _ float64) float64 {
			return etaMin + (s.base[i]-etaMin)*(1+math.Cos(math.Pi*float64(s.tCur)/float64(s.tI)))/2
		},
	}
	s.begin()
	return s
}
