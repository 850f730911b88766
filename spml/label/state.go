package label

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/gospml/gospml/torch"
)

// State is what an estimator needs to go on after a restart.
type State struct {
	Tensors map[string]*torch.Tensor
	Numbers map[string]float64
}

// Keeper is an estimator with state.
type Keeper interface {
	State() State
	LoadState(s State) error
}

// restore copies a tensor of s over t; shape and dtype must agree.
func (s State) restore(name string, t *torch.Tensor) error {
	if err := s.fits(name, t); err != nil {
		return err
	}
	return torch.Try(func() { torch.NoGrad(func() { t.Copy_(s.Tensors[name]) }) })
}

func (s State) fits(name string, t *torch.Tensor) error {
	from, ok := s.Tensors[name]
	switch {
	case !ok || from == nil:
		return fmt.Errorf("label: the state has no tensor %q", name)
	case !slices.Equal(from.Shape(), t.Shape()) || from.DType() != t.DType():
		return fmt.Errorf("label: tensor %q of the state is %v %v, want %v %v", name, from.DType(), from.Shape(), t.DType(), t.Shape())
	}
	return nil
}

func (s State) number(name string) (float64, error) {
	v, ok := s.Numbers[name]
	if !ok {
		return 0, fmt.Errorf("label: the state has no number %q", name)
	}
	return v, nil
}

// build runs f where the caller's scopes and modes do not reach, so that what it keeps lives with the estimator.
func build(f func(s *torch.Arena)) (err error) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(done)
		err = torch.Try(func() { torch.Scope(f) })
	}()
	<-done
	return err
}

// own makes a copy of t that no scope ends.
func own(t *torch.Tensor) (kept *torch.Tensor, err error) {
	err = build(func(s *torch.Arena) { kept = s.Keep(t.Detach().Clone()) })
	return kept, err
}

// index turns dataset rows into an index tensor after checking them against a table's length.
func index(rows []int, table *torch.Tensor) (ids *torch.Tensor, err error) {
	if err := inTable(rows, table.Size(0)); err != nil {
		return nil, err
	}
	p := make([]int64, len(rows))
	for i, r := range rows {
		p[i] = int64(r)
	}
	err = torch.Try(func() { ids = torch.Upload(table.Device(), p) })
	return ids, err
}

func inTable(rows []int, n int) error {
	for _, r := range rows {
		if r < 0 || r >= n {
			return fmt.Errorf("label: row %d of a table with %d", r, n)
		}
	}
	return nil
}

func matrix(what string, t *torch.Tensor) error {
	if t == nil {
		return fmt.Errorf("label: the %s are missing", what)
	}
	if t.Dim() != 2 {
		return fmt.Errorf("label: %s have shape %v, want two dimensions", what, t.Shape())
	}
	return nil
}

func same(what string, t, like *torch.Tensor) error {
	if t == nil {
		return fmt.Errorf("label: the %s are missing", what)
	}
	if !slices.Equal(t.Shape(), like.Shape()) {
		return fmt.Errorf("label: %s have shape %v, want %v", what, t.Shape(), like.Shape())
	}
	return nil
}

// finite refuses scores outside [0, 1], which NaN is too.
func finite(what string, t *torch.Tensor) error {
	if t.Numel() > 0 && t.GeScalar(0).LogicalAnd(t.LeScalar(1)).All().Item() != 1 {
		return fmt.Errorf("label: %s are not all in [0, 1]", what)
	}
	return nil
}
