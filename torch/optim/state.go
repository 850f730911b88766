package optim

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gospml/gospml/torch"
)

// State is an optimizer's state in two parts for a checkpoint: numbers, which encoding/json writes and reads exactly, and
// tensors, for nn.SaveSafetensors.
//
// A tensor's key is "state.<i>.<name>": i counts the parameters over all groups from 0, as in torch.optim's
// state_dict, and name is PyTorch's: momentum_buffer; step, exp_avg, exp_avg_sq, max_exp_avg_sq; square_avg and so on. Parameters that have not been stepped
// have no keys.
type State struct {
	Optimizer string                   `json:"optimizer"` // "sgd", "adam", "adamw", "adamax", "adagrad", "rmsprop"
	Groups    []GroupState             `json:"param_groups"`
	Tensors   map[string]*torch.Tensor `json:"-"`
}

// GroupState are the numbers of a group and how many parameters it has.
type GroupState struct {
	Hyper
	NumParams int `json:"num_params"`
}

// StateDict collects the state. The tensors are the optimizer's own, not copies.
func (c *core) StateDict() State {
	st := State{Optimizer: c.kind, Tensors: map[string]*torch.Tensor{}}
	n := 0
	for _, g := range c.groups {
		st.Groups = append(st.Groups, GroupState{g.Hyper, len(g.Params)})
		for _, s := range g.slots {
			for k, t := range s.state {
				if t != nil {
					st.Tensors[key(n, c.names[k])] = t
				}
			}
			n++
		}
	}
	return st
}

func key(param int, name string) string { return fmt.Sprintf("state.%d.%s", param, name) }

// LoadStateDict copies a state in, the groups' numbers included. The groups must have as many parameters as when the
// state was taken, in the same order.
func (c *core) LoadStateDict(st State) error {
	if st.Optimizer != c.kind {
		return fmt.Errorf("optim: the state is of the optimizer %q, this one is %q", st.Optimizer, c.kind)
	}
	if len(st.Groups) != len(c.groups) {
		return fmt.Errorf("optim: the state has %d parameter groups, this optimizer has %d", len(st.Groups), len(c.groups))
	}
	for i, g := range c.groups {
		if st.Groups[i].NumParams != len(g.Params) {
			return fmt.Errorf("optim: group %d has %d parameters in the state, %d in this optimizer", i, st.Groups[i].NumParams, len(g.Params))
		}
		if err := c.check(&st.Groups[i].Hyper); err != nil {
			return fmt.Errorf("optim: group %d: %w", i, err)
		}
	}
	var slots []slot
	if err := torch.Try(func() { outside(func() { slots = c.restore(st) }) }); err != nil {
		return err
	}
	for i, g := range c.groups {
		g.Hyper = st.Groups[i].Hyper
		copy(g.slots, slots)
		slots = slots[len(g.slots):]
	}
	return nil
}

// restore makes the slots of all groups from the state's tensors; it panics where they do not fit.
func (c *core) restore(st State) []slot {
	slots := make([]slot, len(c.all))
	keys := make([]string, 0, len(st.Tensors))
	for k := range st.Tensors {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		number, name, _ := strings.Cut(strings.TrimPrefix(k, "state."), ".")
		i, err := strconv.Atoi(number)
		which := slices.Index(c.names, name)
		if err != nil || which < 0 || i < 0 || i >= len(slots) || key(i, name) != k {
			refuse(c.kind, "unknown key %q in the state", k)
		}
		p, s, t := c.all[i], &slots[i], st.Tensors[k]
		want, dtype := p.Shape(), p.DType()
		if name == "step" {
			want, dtype = torch.S(), torch.Float32
		}
		if t == nil || !slices.Equal(t.Shape(), want) {
			refuse(c.kind, "%s does not have the shape %v", k, want)
		}
		if s.state == nil {
			s.dtype, s.dev, s.state = p.DType(), p.Device(), make([]*torch.Tensor, len(c.names))
		}
		torch.NoGrad(func() {
			if name == "step" {
				at := s.dev
				if c.hostStep {
					at = torch.CPU
				}
				s.state[which] = torch.Zeros(want, dtype, at)
			} else {
				s.state[which] = p.EmptyLike()
			}
			s.state[which].Copy_(t)
		})
	}
	n := 0
	for gi, g := range c.groups {
		for range g.Params {
			if s := &slots[n]; s.state != nil && c.lacks(&st.Groups[gi].Hyper, s) {
				refuse(c.kind, "the state of parameter %d is incomplete", n)
			}
			n++
		}
	}
	return slots
}
