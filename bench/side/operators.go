package main

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// operators are the cases "small_…" and "large_…": single operators and optimizer steps whose times compare.py sums up in two geometric means.
func init() {
	normal := func(shape ...int) *torch.Tensor { return torch.Randn(shape) }
	for _, size := range []struct {
		name                 string
		n, m, conv, side     int // elements, matrix, channels and side of an image of a batch of 8
		length, width, param int // attention, elements of each of ten parameters
	}{
		{"small", 1 << 10, 64, 16, 16, 16, 16, 1 << 10},
		{"large", 1 << 22, 1024, 64, 56, 256, 64, 1 << 20},
	} {
		add := func(name string, make func() func()) {
			cases[size.name+"_"+name] = func(string) (func(int) error, error) {
				torch.ManualSeed(0)
				return scoped(make()), nil
			}
		}
		add("add", func() func() {
			x, y := normal(size.n), normal(size.n)
			return func() { x.Add(y) }
		})
		add("exp", func() func() {
			x := normal(size.n)
			return func() { x.Exp() }
		})
		add("sigmoid_mul", func() func() {
			x, y := normal(size.n), normal(size.n)
			return func() { x.Sigmoid().Mul(y) }
		})
		add("sum", func() func() {
			x := normal(size.n/64, 64)
			return func() { x.SumDim([]int{1}, false) }
		})
		add("matmul", func() func() {
			x, y := normal(size.m, size.m), normal(size.m, size.m)
			return func() { x.Mm(y) }
		})
		add("linear", func() func() {
			x, w, b := normal(size.m, size.m), normal(size.m, size.m), normal(size.m)
			return func() { torch.Linear(x, w, b) }
		})
		add("conv", func() func() {
			x, w, b := normal(8, size.conv, size.side, size.side), normal(size.conv, size.conv, 3, 3), normal(size.conv)
			return func() { torch.Conv2d(x, w, b, []int{1, 1}, []int{1, 1}, []int{1, 1}, 1) }
		})
		add("attention", func() func() {
			q, k, v := normal(4, 4, size.length, size.width), normal(4, 4, size.length, size.width), normal(4, 4, size.length, size.width)
			return func() { torch.ScaledDotProductAttention(q, k, v, nil, 0, false) }
		})
		step := func(make func([]*torch.Tensor) optim.Optimizer) func() {
			var ps []*torch.Tensor
			for range 10 {
				p := normal(size.param).SetRequiresGrad(true)
				p.SetGrad(normal(size.param))
				ps = append(ps, p)
			}
			o := make(ps)
			return o.Step
		}
		add("sgd", func() func() {
			return step(func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(1e-3), optim.Momentum(0.9)) })
		})
		add("adamw", func() func() {
			return step(func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p, optim.LR(1e-3)) })
		})
	}
}

// scoped runs f n times, in scopes of at most 16 calls.
func scoped(f func()) func(int) error {
	return func(n int) error {
		for n > 0 {
			k := min(n, 16)
			err := torch.Try(func() {
				torch.Scope(func(*torch.Arena) {
					for range k {
						f()
					}
				})
			})
			if err != nil {
				return fmt.Errorf("operator: %w", err)
			}
			n -= k
		}
		return nil
	}
}
