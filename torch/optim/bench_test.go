package optim_test

import (
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// The training step of the peers' small network: 784-128-128-10, batch 64, one thread; gradients are real ones.
func benchmarkMLPStep(b *testing.B, mk func([]*torch.Tensor) optim.Optimizer) {
	torch.ManualSeed(0)
	m := newMLP()
	x, y := torch.Randn(torch.S(64, 784)), torch.Randint(0, 10, torch.S(64))
	opt := mk(nn.Parameters(m))
	b.ReportAllocs()
	_ = torch.Do(func() error {
		step := func(*torch.Arena) {
			opt.ZeroGrad()
			m.Forward(x).CrossEntropyLoss(y, nil, torch.ReductionMean).Backward()
			opt.Step()
		}
		for range 5 {
			torch.Scope(step)
		}
		b.ResetTimer()
		for range b.N {
			torch.Scope(step)
		}
		return nil
	})
}

func BenchmarkMLPStepSGD(b *testing.B) {
	benchmarkMLPStep(b, func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.01)) })
}

func BenchmarkMLPStepSGDMomentum(b *testing.B) {
	benchmarkMLPStep(b, func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.01), optim.Momentum(0.9)) })
}

func BenchmarkMLPStepAdamW(b *testing.B) {
	benchmarkMLPStep(b, func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p) })
}

// The optimizer's own part of it.
func benchmarkStep(b *testing.B, mk func([]*torch.Tensor) optim.Optimizer) {
	torch.ManualSeed(0)
	m := newMLP()
	x, y := torch.Randn(torch.S(64, 784)), torch.Randint(0, 10, torch.S(64))
	ps := nn.Parameters(m)
	opt := mk(ps)
	m.Forward(x).CrossEntropyLoss(y, nil, torch.ReductionMean).Backward()
	opt.Step()
	b.ReportAllocs()
	b.ResetTimer()
	_ = torch.Do(func() error {
		for range b.N {
			opt.Step()
		}
		return nil
	})
}

func BenchmarkSGDStep(b *testing.B) {
	benchmarkStep(b, func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(1e-9)) })
}

func BenchmarkAdamWStep(b *testing.B) {
	benchmarkStep(b, func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p, optim.LR(1e-9)) })
}
