package optim

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
)

// SequentialLR runs one schedule after the other (torch.optim.lr_scheduler.SequentialLR).
type SequentialLR struct {
	inner      []*Schedule
	milestones []int
	lastEpoch  int
	current    int
}

// NewSequentialLR switches to the next schedule at each milestone. All belong to one optimizer, whose rates are those of the first
// schedule's beginning afterwards.
func NewSequentialLR(opt Optimizer, schedules []*Schedule, milestones []int) *SequentialLR {
	const op = "SequentialLR"
	if len(schedules) == 0 || len(milestones) != len(schedules)-1 || !sort.IntsAreSorted(milestones) {
		refuse(op, "%d schedules need %d milestones in ascending order, got %v", len(schedules), len(schedules)-1, milestones)
	}
	for i, s := range schedules {
		if s.opt != opt {
			refuse(op, "schedule %d belongs to another optimizer", i)
		}
	}
	q := &SequentialLR{inner: slices.Clone(schedules), milestones: slices.Clone(milestones)}
	for _, g := range opt.Groups() {
		g.LR = *g.initial
	}
	for _, s := range schedules {
		s.lastEpoch--
	}
	schedules[0].first()
	return q
}

// NewWarmup raises the rate linearly from start times the base rate within steps steps and then follows a schedule.
func NewWarmup(opt Optimizer, start float64, steps int, then *Schedule) *SequentialLR {
	return NewSequentialLR(opt, []*Schedule{NewLinearLR(opt, start, 1, steps), then}, []int{steps})
}

// Step sets the rates of the next step.
func (q *SequentialLR) Step() {
	q.lastEpoch++
	q.current = sort.SearchInts(q.milestones, q.lastEpoch+1)
	s := q.inner[q.current]
	if q.current > 0 && q.milestones[q.current-1] == q.lastEpoch {
		s.restart()
	} else {
		s.Step()
	}
}

// LR are the learning rates that were set last.
func (q *SequentialLR) LR() []float64 { return q.inner[q.current].LR() }

// LastEpoch is how many Steps were made.
func (q *SequentialLR) LastEpoch() int { return q.lastEpoch }

// StateDict collects what the schedules remember.
func (q *SequentialLR) StateDict() ScheduleState {
	st := ScheduleState{Kind: "SequentialLR", LastEpoch: q.lastEpoch, LastLR: q.LR()}
	for _, s := range q.inner {
		st.Inner = append(st.Inner, s.StateDict())
	}
	return st
}

// LoadStateDict continues where the state was taken.
func (q *SequentialLR) LoadStateDict(st ScheduleState) error {
	if st.Kind != "SequentialLR" || len(st.Inner) != len(q.inner) {
		return fmt.Errorf("optim: the state is of a schedule %q of %d parts, this one is a SequentialLR of %d", st.Kind, len(st.Inner), len(q.inner))
	}
	for i, s := range q.inner {
		if k := st.Inner[i].Kind; k != s.kind {
			return fmt.Errorf("optim: part %d of the schedule is a %s in the state, here a %s", i, k, s.kind)
		}
	}
	for i, s := range q.inner {
		if err := s.LoadStateDict(st.Inner[i]); err != nil {
			return err
		}
	}
	q.lastEpoch = st.LastEpoch
	q.current = sort.SearchInts(q.milestones, q.lastEpoch+1)
	return nil
}

// Plateau are the numbers of NewReduceLROnPlateau; the zero value of a field stands for PyTorch's default, except Patience
// and Cooldown, whose zero is meant.
type Plateau struct {
	Max       bool    // the metric is to rise; else to fall
	Factor    float64 // on the rate; 0.1
	Patience  int     // so many steps without improvement are borne
	Threshold float64 // what counts as an improvement; 1e-4, negative = none
	Absolute  bool    // Threshold is a difference, not a part of the best value
	Cooldown  int     // steps after a reduction in which nothing is counted
	MinLR     float64
	Eps       float64 // smaller changes of the rate are not made; 1e-8
}

// ReduceLROnPlateau lowers the rate when a metric stops improving (torch.optim.lr_scheduler.ReduceLROnPlateau).
type ReduceLROnPlateau struct {
	opt       Optimizer
	o         Plateau
	best      float64
	bad, wait int
	lastEpoch int
}

// NewReduceLROnPlateau leaves the rates as they are.
func NewReduceLROnPlateau(opt Optimizer, o Plateau) *ReduceLROnPlateau {
	if o.Factor == 0 {
		o.Factor = 0.1
	}
	if o.Threshold == 0 {
		o.Threshold = 1e-4
	}
	o.Threshold = max(o.Threshold, 0)
	if o.Eps == 0 {
		o.Eps = 1e-8
	}
	if o.Factor >= 1 {
		refuse("ReduceLROnPlateau", "the factor must be below 1, not %v", o.Factor)
	}
	p := &ReduceLROnPlateau{opt: opt, o: o, best: math.Inf(1)}
	if o.Max {
		p.best = math.Inf(-1)
	}
	return p
}

func (p *ReduceLROnPlateau) better(v float64) bool {
	switch {
	case p.o.Max && p.o.Absolute:
		return v > p.best+p.o.Threshold
	case p.o.Max:
		return v > p.best*(1+p.o.Threshold)
	case p.o.Absolute:
		return v < p.best-p.o.Threshold
	}
	return v < p.best*(1-p.o.Threshold)
}

// Step looks at the metric and lowers the rates when it has not improved for too long.
func (p *ReduceLROnPlateau) Step(metric float64) {
	p.lastEpoch++
	if p.better(metric) {
		p.best, p.bad = metric, 0
	} else {
		p.bad++
	}
	if p.wait > 0 {
		p.wait--
		p.bad = 0
	}
	if p.bad <= p.o.Patience {
		return
	}
	for _, g := range p.opt.Groups() {
		if lr := max(g.LR*p.o.Factor, p.o.MinLR); g.LR-lr > p.o.Eps {
			g.LR = lr
		}
	}
	p.wait, p.bad = p.o.Cooldown, 0
}

// LR are the learning rates of the groups.
func (p *ReduceLROnPlateau) LR() (lrs []float64) {
	for _, g := range p.opt.Groups() {
		lrs = append(lrs, g.LR)
	}
	return lrs
}

// LastEpoch is how many Steps were made.
func (p *ReduceLROnPlateau) LastEpoch() int { return p.lastEpoch }

// StateDict collects what the schedule remembers.
func (p *ReduceLROnPlateau) StateDict() ScheduleState {
	return ScheduleState{Kind: "ReduceLROnPlateau", LastEpoch: p.lastEpoch, LastLR: p.LR(), Best: strconv.FormatFloat(p.best, 'g', -1, 64), BadEpochs: p.bad, Cooldown: p.wait}
}

// LoadStateDict continues where the state was taken.
func (p *ReduceLROnPlateau) LoadStateDict(st ScheduleState) error {
	best, err := strconv.ParseFloat(st.Best, 64)
	if st.Kind != "ReduceLROnPlateau" || err != nil {
		return fmt.Errorf("optim: the state is of a schedule %q with the best value %q, this one is a ReduceLROnPlateau", st.Kind, st.Best)
	}
	p.best, p.bad, p.wait, p.lastEpoch = best, st.BadEpochs, st.Cooldown, st.LastEpoch
	return nil
}
