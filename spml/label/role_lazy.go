package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// Adam's numbers for ROLE's table, as in the released code.
const (
	roleBeta1 = 0.9
	roleBeta2 = 0.999
	roleEps   = 1e-8
)

// LazyRole trains a Role's table to the numbers of dense Adam while it touches only the rows of each batch. A row outside the
// batch has no gradient, so that its next steps are known: m and v shrink by β₁ and β₂, and u moves by
//
//	-Σ_i lr·m·β₁ⁱ/(1-β₁ᵗ⁺ⁱ) / (√(v·β₂ⁱ/(1-β₂ᵗ⁺ⁱ)) + ε)
//
// which is made up for in one go when the row is looked up again. The sum is a series in ε/√v whose coefficients
// depend on the steps alone, at most 420 of them before β₁ⁱ/β₂^(i/2) is below 1e-19; entries whose ε/√v is
// too large for it are summed one by one. A step costs the batch's rows instead of all N of them, and no gradient of
// size N×C is made.
//
// As an estimator it takes a step with each of the optimiser's, at the learning rate that label.Step says, and brings
// all rows up to date at the end of an epoch. Each batch is filled in one piece, as ROLE's loss sees whole batches.
//
// One goroutine at a time uses it. The table's tensor is up to date after Flush only.
type LazyRole struct {
	None
	role  *Role
	m, v  *torch.Tensor // [N, C]: exp_avg, exp_avg_sq
	lr    float64       // of the table
	now   int           // steps so far
	last  []int         // step that a row's u, m and v are of
	base  int           // step before rates[0]
	rates []rate        // of the steps after base
	seen  []lookedUp    // since the last step
}

// rate holds what Adam's bias corrections make of one step.
type rate struct {
	step float64 // lr/(1-β₁ᵗ)
	root float64 // √(1-β₂ᵗ)
}

type lookedUp struct {
	rows []int
	leaf *torch.Tensor
}

// Lazy trains the table from here on, with RoleLRFactor times the classifier's learning rate. The table must be on the CPU, and no
// optimizer may have it too.
func (r *Role) Lazy(lr float64) (*LazyRole, error) {
	if !(lr >= 0) || math.IsInf(lr, 0) {
		return nil, fmt.Errorf("label: the learning rate is %v", lr)
	}
	if d := r.U.Device(); d.Type != torch.DeviceCPU {
		return nil, fmt.Errorf("label: ROLE's table is on %v; lazy steps need the CPU, Role.AddGroup trains it there", d)
	}
	l := &LazyRole{role: r, lr: RoleLRFactor * lr, last: make([]int, r.U.Size(0))}
	err := build(func(s *torch.Arena) {
		u := r.U.Detach()
		l.m, l.v = s.Keep(u.ZerosLike()), s.Keep(u.ZerosLike())
	})
	return l, err
}

// SetLR changes the classifier's learning rate from the next step on.
func (l *LazyRole) SetLR(lr float64) { l.lr = RoleLRFactor * lr }

// Lookup is the rows' logits [len(rows), C] after all steps so far, a leaf of the caller's scope whose gradient Step reads.
func (l *LazyRole) Lookup(rows []int) (u *torch.Tensor, err error) {
	if err := inTable(rows, len(l.last)); err != nil {
		return nil, err
	}
	err = torch.Try(func() {
		if l.role.U.DType() == torch.Float64 {
			u = lookUp[float64](l, rows)
		} else {
			u = lookUp[float32](l, rows)
		}
		u.SetRequiresGrad(true)
	})
	if err == nil {
		l.seen = append(l.seen, lookedUp{append([]int(nil), rows...), u})
	}
	return u, err
}

// Step is Adam's step of the whole table with the gradients of what was looked up since the last one. Without any gradient
// nothing happens, as in Adam.
func (l *LazyRole) Step() error {
	seen := l.seen
	l.seen = nil
	return torch.Try(func() {
		if l.role.U.DType() == torch.Float64 {
			stepRows[float64](l, seen)
		} else {
			stepRows[float32](l, seen)
		}
	})
}

// Flush brings all rows up to date, before the whole table is read.
func (l *LazyRole) Flush() error {
	err := torch.Try(func() {
		if l.role.U.DType() == torch.Float64 {
			flush[float64](l)
		} else {
			flush[float32](l)
		}
	})
	if err == nil {
		l.base, l.rates = l.now, nil
	}
	return err
}

// Fill gives a batch its rows of the table. What an attempt that failed has looked up is forgotten.
func (l *LazyRole) Fill(s *Step) error {
	if s.LR > 0 {
		l.SetLR(s.LR)
	}
	l.seen = nil
	u, err := l.Lookup(s.Places)
	s.Batch.Estimate = u
	return err
}

// After takes the table's step.
func (l *LazyRole) After(*Step) error { return l.Step() }

// End brings the table up to date.
func (l *LazyRole) End(int, func() (*torch.Tensor, error)) error { return l.Flush() }

// Estimates are θ = σ(U), of a table that it brings up to date.
func (l *LazyRole) Estimates() *torch.Tensor {
	if err := l.Flush(); err != nil {
		panic(err)
	}
	return l.role.Estimates()
}

// State holds the table with its moments as they are, the step that each row is of, the steps since the last Flush and
// the learning rate: nothing is brought up to date, so that a run has the same bits however often its state is kept.
func (l *LazyRole) State() State {
	last, rates := make([]int64, len(l.last)), make([]float64, 0, 2*len(l.rates))
	for i, step := range l.last {
		last[i] = int64(step)
	}
	for _, r := range l.rates {
		rates = append(rates, r.step, r.root)
	}
	return State{
		Tensors: map[string]*torch.Tensor{
			"u": l.role.U.Detach(), "exp_avg": l.m, "exp_avg_sq": l.v,
			"last": torch.FromSlice(last, len(last)), "rates": torch.FromSlice(rates, len(l.rates), 2),
		},
		Numbers: map[string]float64{"step": float64(l.now), "base": float64(l.base), "lr": l.lr},
	}
}

// LoadState restores them in place.
func (l *LazyRole) LoadState(s State) error {
	fail := func(err error) error { return fmt.Errorf("ROLE: %w", err) }
	into := map[string]*torch.Tensor{"u": l.role.U.Detach(), "exp_avg": l.m, "exp_avg_sq": l.v}
	for name, t := range into {
		if err := s.fits(name, t); err != nil {
			return fail(err)
		}
	}
	var n [3]float64
	for i, name := range []string{"step", "base", "lr"} {
		var err error
		if n[i], err = s.number(name); err != nil {
			return fail(err)
		}
	}
	step, base, lr := n[0], n[1], n[2]
	if !(base >= 0 && base == math.Trunc(base) && step >= base && step == math.Trunc(step)) || !(lr >= 0) {
		return fmt.Errorf("ROLE: a state of %v steps from %v at learning rate %v", step, base, lr)
	}
	last, rates := s.Tensors["last"], s.Tensors["rates"]
	if last == nil || last.DType() != torch.Int64 || last.Numel() != len(l.last) {
		return fmt.Errorf("ROLE: the state does not say which step each of the %d rows is of", len(l.last))
	}
	if rates == nil || rates.DType() != torch.Float64 || rates.Numel() != 2*int(step-base) {
		return fmt.Errorf("ROLE: the state lacks the %v steps since all rows were up to date", step-base)
	}
	of := torch.ToSlice[int64](last)
	for i, x := range of {
		if x < int64(base) || x > int64(step) {
			return fmt.Errorf("ROLE: row %d of the state is of step %d, not of %v … %v", i, x, base, step)
		}
	}
	for name, t := range into {
		if err := s.restore(name, t); err != nil {
			return fail(err)
		}
	}
	l.now, l.base, l.lr, l.rates, l.seen = int(step), int(base), lr, nil, nil
	r := torch.ToSlice[float64](rates)
	for i := range len(r) / 2 {
		l.rates = append(l.rates, rate{r[2*i], r[2*i+1]})
	}
	for i, x := range of {
		l.last[i] = int(x)
	}
	return nil
}

// view shows the table and its moments.
func view[T float32 | float64](l *LazyRole, f func(u, m, v []T)) {
	torch.View(l.role.U.Detach(), func(u []T) {
		torch.View(l.m, func(m []T) {
			torch.View(l.v, func(v []T) { f(u, m, v) })
		})
	})
}

func lookUp[T float32 | float64](l *LazyRole, rows []int) *torch.Tensor {
	c := l.role.U.Size(1)
	out := make([]T, 0, len(rows)*c)
	view(l, func(u, m, v []T) {
		known := map[int]*series{}
		for _, r := range rows {
			catchUp(l, r, known, u, m, v)
			out = append(out, u[r*c:(r+1)*c]...)
		}
	})
	return torch.FromSlice(out, len(rows), c)
}

func flush[T float32 | float64](l *LazyRole) {
	view(l, func(u, m, v []T) {
		known := map[int]*series{}
		for r := range l.last {
			catchUp(l, r, known, u, m, v)
		}
	})
}

func stepRows[T float32 | float64](l *LazyRole, seen []lookedUp) {
	c := l.role.U.Size(1)
	grads := map[int][]T{} // a row may have been looked up more than once
	for _, s := range seen {
		g := s.leaf.Grad()
		if g == nil {
			continue
		}
		values := torch.ToSlice[T](g.Contiguous())
		for i, r := range s.rows {
			if sum, ok := grads[r]; ok {
				for k, x := range values[i*c : (i+1)*c] {
					sum[k] += x
				}
			} else {
				grads[r] = values[i*c : (i+1)*c : (i+1)*c]
			}
		}
	}
	if len(grads) == 0 {
		return
	}
	t := float64(l.now + 1)
	at := rate{l.lr / -math.Expm1(t*math.Log(roleBeta1)), math.Sqrt(-math.Expm1(t * math.Log(roleBeta2)))}
	view(l, func(u, m, v []T) {
		known := map[int]*series{}
		for r, grad := range grads {
			catchUp(l, r, known, u, m, v)
			for k, x := range grad {
				i, g := r*c+k, float64(x)
				mean := roleBeta1*float64(m[i]) + (1-roleBeta1)*g
				square := roleBeta2*float64(v[i]) + (1-roleBeta2)*g*g
				m[i], v[i] = T(mean), T(square)
				u[i] -= T(at.step * mean / (math.Sqrt(square)/at.root + roleEps))
			}
			l.last[r] = l.now + 1
		}
	})
	l.now++
	l.rates = append(l.rates, at)
}

const (
	terms    = 7     // of the series in ε/√v
	smallest = 1e-19 // β₁ⁱ/β₂^(i/2) that still counts
	// Largest ε/√v that the series takes: its remainder is below that to the power 7.
	largest32, largest64 = 0.05, 0.003
)

// series are the steps without gradient after one step: Σ_i w_i·(-q_i)ʲ for j = 0 … 6, w_i = lr/(1-β₁ᵗ⁺ⁱ)·β₁ⁱ·q_i and
// q_i = √(1-β₂ᵗ⁺ⁱ)/β₂^(i/2), so that u moves by -(m/√v)·Σ_i w_i/(1 + q_i·ε/√v).
type series struct {
	sum    [terms]float64
	q      float64 // largest
	m1, v1 float64 // β₁ⁿ, β₂ⁿ
}

func (l *LazyRole) seriesFrom(step int) *series {
	n := float64(l.now - step)
	s := &series{m1: math.Pow(roleBeta1, n), v1: math.Pow(roleBeta2, n)}
	l.skipped(step, func(r rate, b1, q float64) {
		s.q = max(s.q, q)
		x := r.step * b1 * q
		for j := range s.sum {
			s.sum[j] += x
			x *= -q
		}
	})
	return s
}

// skipped goes through the steps after one as long as they count, with β₁ⁱ and q_i.
func (l *LazyRole) skipped(step int, f func(r rate, b1, q float64)) {
	b1, h, half := 1.0, 1.0, 1/math.Sqrt(roleBeta2)
	for _, r := range l.rates[step-l.base:] {
		b1 *= roleBeta1
		h *= half
		if b1*h < smallest {
			return
		}
		f(r, b1, r.root*h)
	}
}

// catchUp takes the steps that a row has not seen. known keeps the series by their first step.
func catchUp[T float32 | float64](l *LazyRole, row int, known map[int]*series, u, m, v []T) {
	from := l.last[row]
	if from == l.now {
		return
	}
	s := known[from]
	if s == nil {
		s = l.seriesFrom(from)
		known[from] = s
	}
	largest := largest64
	if _, single := any(T(0)).(float32); single {
		largest = largest32
	}
	c := len(u) / len(l.last)
	for i := row * c; i < (row+1)*c; i++ {
		mean, root := float64(m[i]), math.Sqrt(float64(v[i]))
		if mean == 0 && root == 0 {
			continue // never had a gradient
		}
		x := roleEps / root
		var move float64
		if x*s.q <= largest {
			p := s.sum[terms-1]
			for j := terms - 2; j >= 0; j-- {
				p = p*x + s.sum[j]
			}
			move = mean / root * p
		} else {
			l.skipped(from, func(r rate, b1, q float64) { move += r.step * mean * b1 / (root/q + roleEps) })
		}
		u[i] = T(float64(u[i]) - move)
		m[i], v[i] = T(mean*s.m1), T(float64(v[i])*s.v1)
	}
	l.last[row] = l.now
}
