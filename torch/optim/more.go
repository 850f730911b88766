package optim

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// RMSprop (torch.optim.RMSprop; Hinton 2012):
//
//	g ← ∇ + WeightDecay·θ                          (-∇ with Maximize)
//	v ← Alpha·v + (1-Alpha)·g²
//	θ ← θ - LR·g/(√v + Eps)                        (Centered: √(v - a²), a the running mean of g)
//
// With Momentum the quotient is collected in b ← Momentum·b + g/(√v + Eps), and θ ← θ - LR·b. The state of a parameter is
// step, square_avg, with Momentum momentum_buffer and with Centered grad_avg.
type RMSprop struct{ core }

// NewRMSprop makes an optimizer of one group. Options: LR (1e-2), Alpha, Eps, WeightDecay, Momentum, Centered, Maximize.
func NewRMSprop(params []*torch.Tensor, opts ...Option) *RMSprop {
	o := &RMSprop{core{
		kind: "rmsprop", takes: " LR Alpha Eps WeightDecay Momentum Centered Maximize ", names: []string{"step", "square_avg", "momentum_buffer", "grad_avg"},
		defaults: Hyper{LR: 1e-2, Alpha: 0.99, Eps: 1e-8}, hostStep: true,
		verify: func(h *Hyper) error {
			if !(h.Alpha >= 0) {
				return fmt.Errorf("invalid alpha: %v", h.Alpha)
			}
			return nil
		},
		lacks: func(h *Hyper, s *slot) bool {
			return s.state[1] == nil || h.Momentum > 0 && s.state[2] == nil || h.Centered && s.state[3] == nil
		},
		fill: func(h *Hyper, s *slot, p *torch.Tensor) {
			if s.state[1] == nil {
				s.state[0], s.state[1] = torch.Zeros(torch.S(), torch.Float32), p.ZerosLike()
			}
			if h.Momentum > 0 && s.state[2] == nil {
				s.state[2] = p.ZerosLike()
			}
			if h.Centered && s.state[3] == nil {
				s.state[3] = p.ZerosLike()
			}
		},
		apply: func(h *Hyper, b *batch) {
			advance(b.state[0], torch.CPU)
			g, v := direction(h, b), b.state[1]
			torch.ForeachMulScalar_(v, h.Alpha)
			torch.ForeachAddcmul_(v, g, g, 1-h.Alpha)
			var d []*torch.Tensor
			if h.Centered {
				torch.ForeachLerp_(b.state[3], g, 1-h.Alpha)
				d = list(torch.Call("aten::_foreach_addcmul.Scalar", v, b.state[3], b.state[3], -1.0))
				torch.Call("aten::_foreach_sqrt_", d)
			} else {
				d = torch.ForeachSqrt(v)
			}
			torch.ForeachAddScalar_(d, h.Eps)
			if h.Momentum > 0 {
				torch.ForeachMulScalar_(b.state[2], h.Momentum)
				torch.ForeachAddcdiv_(b.state[2], g, d, 1.0)
				torch.ForeachAdd_(b.params, b.state[2], -h.LR)
			} else {
				torch.ForeachAddcdiv_(b.params, g, d, -h.LR)
			}
		},
	}}
	o.start(params, opts)
	return o
}

func list(results []any) []*torch.Tensor { return results[0].([]*torch.Tensor) }

// direction is the gradient with decay added and, with Maximize, turned round; the gradients stay as they are.
func direction(h *Hyper, b *batch) []*torch.Tensor {
	g := b.grads
	if h.Maximize {
		g = torch.ForeachNeg(g)
	}
	if h.WeightDecay != 0 {
		g = torch.ForeachAdd(g, b.params, h.WeightDecay)
	}
	return g
}

// rates gives each parameter of a batch its step size, which depends on how often it was stepped.
func rates(b *batch, f func(step float64) float64) []float64 {
	r := make([]float64, len(b.params))
	for i, t := range b.state[0] {
		torch.View(t, func(v []float32) { r[i] = f(float64(v[0])) })
	}
	return r
}

// Adamax is Adam with the largest gradient instead of its square (torch.optim.Adamax; Kingma and Ba 2015, section 7.1):
//
//	m ← β₁·m + (1-β₁)·g,  u ← max(β₂·u, |g| + Eps)
//	θ ← θ - LR/(1-β₁ᵗ)·m/u
//
// The state of a parameter is step, exp_avg (m) and exp_inf (u).
type Adamax struct{ core }

// NewAdamax makes an optimizer of one group. Options: LR (2e-3), Betas, Eps, WeightDecay, Maximize.
func NewAdamax(params []*torch.Tensor, opts ...Option) *Adamax {
	o := &Adamax{core{
		kind: "adamax", takes: " LR Betas Eps WeightDecay Maximize ", names: []string{"step", "exp_avg", "exp_inf"},
		defaults: Hyper{LR: 2e-3, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8}, hostStep: true, verify: checkBetas,
		lacks: func(_ *Hyper, s *slot) bool { return s.state[1] == nil || s.state[2] == nil },
		fill: func(_ *Hyper, s *slot, p *torch.Tensor) {
			s.state[0], s.state[1], s.state[2] = torch.Zeros(torch.S(), torch.Float32), p.ZerosLike(), p.ZerosLike()
		},
		apply: func(h *Hyper, b *batch) {
			advance(b.state[0], torch.CPU)
			g, u := direction(h, b), b.state[2]
			torch.ForeachLerp_(b.state[1], g, 1-h.Betas[0])
			torch.ForeachMulScalar_(u, h.Betas[1])
			size := torch.ForeachAbs(g)
			torch.ForeachAddScalar_(size, h.Eps)
			torch.ForeachMaximum_(u, size)
			torch.Call("aten::_foreach_addcdiv_.ScalarList", b.params, b.state[1], u, rates(b, func(t float64) float64 { return -h.LR / (1 - math.Pow(h.Betas[0], t)) }))
		},
	}}
	o.start(params, opts)
	return o
}

// Adagrad (torch.optim.Adagrad; Duchi et al. 2011):
//
//	s ← s + g²,  θ ← θ - LR/(1 + (t-1)·LRDecay)·g/(√s + Eps)
//
// The state of a parameter is step (t) and sum (s), which begins with InitialAccumulator.
type Adagrad struct{ core }

// NewAdagrad makes an optimizer of one group. Options: LR (1e-2), LRDecay, WeightDecay, InitialAccumulator, Eps (1e-10), Maximize.
func NewAdagrad(params []*torch.Tensor, opts ...Option) *Adagrad {
	o := &Adagrad{core{
		kind: "adagrad", takes: " LR LRDecay WeightDecay InitialAccumulator Eps Maximize ", names: []string{"step", "sum"},
		defaults: Hyper{LR: 1e-2, Eps: 1e-10}, hostStep: true,
		verify: func(h *Hyper) error {
			if !(h.LRDecay >= 0 && h.InitialAccumulator >= 0) {
				return fmt.Errorf("invalid lr_decay %v or initial_accumulator_value %v", h.LRDecay, h.InitialAccumulator)
			}
			return nil
		},
		lacks: func(_ *Hyper, s *slot) bool { return s.state[1] == nil },
		fill: func(h *Hyper, s *slot, p *torch.Tensor) {
			s.state[0], s.state[1] = torch.Zeros(torch.S(), torch.Float32), p.FullLike(h.InitialAccumulator)
		},
		apply: func(h *Hyper, b *batch) {
			advance(b.state[0], torch.CPU)
			g := direction(h, b)
			torch.ForeachAddcmul_(b.state[1], g, g, 1.0)
			d := torch.ForeachSqrt(b.state[1])
			torch.ForeachAddScalar_(d, h.Eps)
			torch.Call("aten::_foreach_addcdiv_.ScalarList", b.params, g, d, rates(b, func(t float64) float64 { return -h.LR / (1 + (t-1)*h.LRDecay) }))
		},
	}}
	o.start(params, opts)
	return o
}
