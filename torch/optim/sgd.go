package optim

import (
	"errors"

	"github.com/gospml/gospml/torch"
)

// SGD is stochastic gradient descent (torch.optim.SGD; Nesterov's form after Sutskever et al. 2013):
//
//	g ← ∇ + WeightDecay·θ                        (-∇ with Maximize)
//	b ← Momentum·b + (1 - Dampening)·g           (b ← g at the first step)
//	θ ← θ - LR·b                                 (Nesterov: LR·(g + Momentum·b))
//
// Without momentum θ ← θ - LR·g. The state of a parameter is momentum_buffer, with momentum only.
type SGD struct{ core }

// NewSGD makes an optimizer of one group. Options: LR, Momentum, Dampening, WeightDecay, Nesterov, Maximize.
func NewSGD(params []*torch.Tensor, opts ...Option) *SGD {
	o := &SGD{core{
		kind: "sgd", takes: " LR Momentum Dampening WeightDecay Nesterov Maximize ", names: []string{"momentum_buffer"},
		defaults: Hyper{LR: 1e-3},
		verify: func(h *Hyper) error {
			if h.Nesterov && (h.Momentum <= 0 || h.Dampening != 0) {
				return errors.New("Nesterov momentum requires a momentum and zero dampening")
			}
			return nil
		},
		lacks: func(h *Hyper, s *slot) bool { return h.Momentum != 0 && s.state[0] == nil },
		fill:  func(h *Hyper, s *slot, p *torch.Tensor) { s.state[0], s.fresh = p.EmptyLike(), true },
		apply: func(h *Hyper, b *batch) {
			buffers := b.state[0]
			if h.Momentum == 0 {
				buffers = nil
			}
			torch.FusedSGD_(b.params, b.grads, buffers, h.WeightDecay, h.Momentum, h.LR, h.Dampening, h.Nesterov, h.Maximize, b.fresh)
			follow(3, &h.WeightDecay, &h.Momentum, &h.LR, &h.Dampening)
		},
		frozen: func(h Hyper) Hyper {
			h.WeightDecay, h.LR, h.Dampening = 0, 0, 0
			if h.Momentum != 0 { // without it there are no buffers
				h.Momentum = 1
			}
			return h
		},
	}}
	o.start(params, opts)
	return o
}
