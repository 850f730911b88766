package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// Initial logits of ROLE's table: observed labels at ±logit 0.995, unknown ones uniform within ±logit 0.6.
var (
	roleObserved = math.Log(0.995 / 0.005)
	roleUnknown  = math.Log(0.6 / 0.4)
)

// RoleLRFactor is the table's learning rate over the classifier's.
const RoleLRFactor = 10

// Role is ROLE's table U [N, C] of label logits. It is one dense parameter: a lookup's gradient is zero outside the
// batch, but Adam's momentum moves all rows in every step, as in the released code.
type Role struct {
	None
	U *torch.Tensor
}

// NewRole draws a table for observed labels [N, C] in {1, 0, -1}, of dtype float32 or float64.
func NewRole(observed *torch.Tensor, dtype torch.DType, g *torch.Generator) (*Role, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	r := &Role{}
	err := build(func(s *torch.Arena) {
		u := torch.Empty(observed.Shape(), dtype).Uniform_(-roleUnknown, roleUnknown, g).ToDevice(observed.Device())
		u.MaskedFill_(observed.EqScalar(1), roleObserved)
		u.MaskedFill_(observed.EqScalar(-1), -roleObserved)
		r.U = s.Keep(u).SetRequiresGrad(true)
	})
	return r, err
}

// RoleFromLogits takes stored logits.
func RoleFromLogits(u *torch.Tensor) (*Role, error) {
	if err := matrix("label logits", u); err != nil {
		return nil, err
	}
	kept, err := own(u)
	if err != nil {
		return nil, err
	}
	return &Role{U: kept.SetRequiresGrad(true)}, nil
}

// RoleFromProbabilities is LinearInit's handover: estimates θ of a first stage on frozen features, clipped to [1e-5,
// 1-1e-5], as logits.
func RoleFromProbabilities(theta *torch.Tensor) (*Role, error) {
	if err := matrix("label estimates", theta); err != nil {
		return nil, err
	}
	var r *Role
	var err error
	e := torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			t := theta.Detach().Clamp(1e-5, 1-1e-5)
			r, err = RoleFromLogits(t.Log().Sub(t.RsubScalar(1).Log()))
		})
	})
	if e != nil {
		err = e
	}
	return r, err
}

// AddGroup gives the table to the optimizer as a dense group with RoleLRFactor times the learning rate.
func (r *Role) AddGroup(o optim.Optimizer, lr float64) error {
	return torch.Try(func() { o.AddGroup([]*torch.Tensor{r.U}, optim.LR(RoleLRFactor*lr)) })
}

// Lookup is the rows' logits [len(rows), C], through which gradients reach the table.
func (r *Role) Lookup(rows []int) (u *torch.Tensor, err error) {
	ids, err := index(rows, r.U)
	if err != nil {
		return nil, err
	}
	err = torch.Try(func() { u = r.U.IndexSelect(0, ids) })
	return u, err
}

// Estimates are θ = σ(U).
func (r *Role) Estimates() *torch.Tensor { return r.U.Detach().Sigmoid() }

// Fill gives a batch its rows of the table.
func (r *Role) Fill(s *Step) error {
	s.Batch.Estimate = r.U.IndexSelect(0, s.At)
	return nil
}

// Groups is the table, which the optimiser trains.
func (r *Role) Groups() []Group { return []Group{{[]*torch.Tensor{r.U}, RoleLRFactor}} }

// State holds the table as "u"; the optimizer keeps its own.
func (r *Role) State() State {
	return State{Tensors: map[string]*torch.Tensor{"u": r.U.Detach()}}
}

// LoadState restores the table in place, so that an optimizer keeps its parameter.
func (r *Role) LoadState(s State) error {
	if err := s.restore("u", r.U.Detach()); err != nil {
		return fmt.Errorf("ROLE: %w", err)
	}
	return nil
}
