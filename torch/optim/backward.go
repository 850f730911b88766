package optim

import (
	"github.com/gospml/gospml/torch"
)

// InBackward has o step each parameter as soon as backward has its gradient, and clear that gradient: all gradients together never lie in
// memory. Weights and state become the same bits as with Step, which then finds nothing to do. It is for steps of one backward whose gradients
// nobody else wants: no accumulation over batches, no clipping by the norm of all, no loss scale, no averaging over processes.
// Numbers of the groups are read when a parameter's turn comes. Every parameter needs gradients; frozen ones are passed over.
//
// The end takes it off again; until then o and its parameters live. Not to be called while backward runs.
func InBackward(o Optimizer) (end func()) {
	s, ok := o.(interface {
		stepOne(g *Group, at int)
		coreOf() *core
	})
	if !ok {
		panic(&torch.Error{Kind: torch.KindValue, Op: "optim.in_backward", Msg: "wants one of this package's optimizers"})
	}
	var hooked []*torch.Tensor
	for _, g := range s.coreOf().groups {
		for i, p := range g.Params {
			if p.RequiresGrad() {
				p.OnAccumulate(func(*torch.Tensor) { s.stepOne(g, i) })
				hooked = append(hooked, p)
			}
		}
	}
	return func() {
		for _, p := range hooked {
			p.OnAccumulate(nil)
		}
	}
}

func (c *core) coreOf() *core { return c }

// stepOne changes one parameter and clears its gradient.
func (c *core) stepOne(g *Group, at int) {
	if torch.Recording() {
		refuse(c.kind, "steps in backward cannot be recorded")
	}
	p := g.Params[at]
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			grad := p.Grad()
			if grad == nil {
				return
			}
			s := &g.slots[at]
			if s.state == nil || c.lacks(&g.Hyper, s) {
				outside(func() { c.make(&g.Hyper, s, p) })
			}
			b := &batch{dtype: s.dtype, dev: s.dev, fresh: s.fresh, params: []*torch.Tensor{p}, grads: []*torch.Tensor{grad}}
			for k, t := range s.state {
				if t != nil {
					b.state[k] = []*torch.Tensor{t}
				}
			}
			s.fresh = false
			c.apply(&g.Hyper, b)
		})
	})
	torch.ZeroGrad([]*torch.Tensor{p}, false)
}
