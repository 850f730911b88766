package optim

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/torch"
)

// Adam (torch.optim.Adam; Kingma and Ba 2015, arXiv:1412.6980):
//
//	g ← ∇ + WeightDecay·θ                                      (-∇ with Maximize)
//	m ← β₁·m + (1-β₁)·g,  v ← β₂·v + (1-β₂)·g²
//	θ ← θ - LR·m̂/(√v̂ + Eps),  m̂ = m/(1-β₁ᵗ),  v̂ = v/(1-β₂ᵗ)
//
// With AMSGrad v̂ is made of the largest v so far. The state of a parameter is step (t, float32), exp_avg (m),
// exp_avg_sq (v) and, with AMSGrad, max_exp_avg_sq.
type Adam struct{ core }

// NewAdam makes an optimizer of one group. Options: LR, Betas, Eps, WeightDecay, AMSGrad, Maximize.
func NewAdam(params []*torch.Tensor, opts ...Option) *Adam {
	o := &Adam{adamCore("adam", 0, torch.FusedAdam_)}
	o.start(params, opts)
	return o
}

// AdamW is Adam with decoupled weight decay (torch.optim.AdamW; Loshchilov and Hutter 2019, arXiv:1711.05101): the decay
// is θ ← θ - LR·WeightDecay·θ before the step, and not part of g.
type AdamW struct{ core }

// NewAdamW makes an optimizer of one group. Options: LR, Betas, Eps, WeightDecay, AMSGrad, Maximize.
func NewAdamW(params []*torch.Tensor, opts ...Option) *AdamW {
	o := &AdamW{adamCore("adamw", 1e-2, torch.FusedAdamW_)}
	o.start(params, opts)
	return o
}

type adamKernel func(self, grads, expAvgs, expAvgSqs, maxExpAvgSqs, stateSteps []*torch.Tensor, lr, beta1, beta2, weightDecay, eps float64, amsgrad, maximize bool)

func adamCore(kind string, weightDecay float64, kernel adamKernel) core {
	return core{
		kind: kind, takes: " LR Betas Eps WeightDecay AMSGrad Maximize ", names: []string{"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
		defaults: Hyper{LR: 1e-3, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, WeightDecay: weightDecay},
		verify:   checkBetas,
		lacks: func(h *Hyper, s *slot) bool {
			return slices.Contains(s.state[:3], nil) || h.AMSGrad && s.state[3] == nil
		},
		fill: func(h *Hyper, s *slot, p *torch.Tensor) {
			if s.state[0] == nil {
				s.state[0] = torch.Zeros(torch.S(), torch.Float32, s.dev)
				s.state[1], s.state[2] = p.ZerosLike(), p.ZerosLike()
			}
			if h.AMSGrad {
				s.state[3] = p.ZerosLike()
			}
		},
		apply: func(h *Hyper, b *batch) {
			advance(b.state[0], b.dev)
			largest := b.state[3]
			if !h.AMSGrad {
				largest = nil
			}
			kernel(b.params, b.grads, b.state[1], b.state[2], largest, b.state[0], h.LR, h.Betas[0], h.Betas[1], h.WeightDecay, h.Eps, h.AMSGrad, h.Maximize)
			follow(6, &h.LR, &h.Betas[0], &h.Betas[1], &h.WeightDecay, &h.Eps)
		},
		frozen: func(h Hyper) Hyper {
			h.LR, h.Betas, h.WeightDecay, h.Eps = 0, [2]float64{}, 0, 0
			return h
		},
	}
}

// advance adds 1 to the step counts, which the kernels read and leave to the caller. On the CPU it writes the numbers
// itself: an operator on one number costs a hundred times that.
func advance(steps []*torch.Tensor, dev torch.Device) {
	if dev.Type != torch.DeviceCPU {
		torch.ForeachAddScalar_(steps, 1)
		return
	}
	if torch.Recording() {
		torch.Call("gospml::advance_", steps)
		return
	}
	for _, t := range steps {
		torch.View(t, func(v []float32) { v[0]++ })
	}
}

func checkBetas(h *Hyper) error {
	for i, b := range h.Betas {
		if !(b >= 0 && b < 1) {
			return fmt.Errorf("invalid beta parameter at index %d: %v", i, b)
		}
	}
	return nil
}
