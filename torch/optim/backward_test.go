package optim_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// TestInBackward: weights and state are the same bits as with Step, gradients are gone when backward ends, and the end puts everything back.
func TestInBackward(t *testing.T) {
	makers := map[string]func(ps []*torch.Tensor) optim.Optimizer{
		"sgd":     func(ps []*torch.Tensor) optim.Optimizer { return optim.NewSGD(ps, optim.LR(0.1), optim.Momentum(0.9)) },
		"adam":    func(ps []*torch.Tensor) optim.Optimizer { return optim.NewAdam(ps, optim.AMSGrad()) },
		"adamw":   func(ps []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(ps) },
		"adamax":  func(ps []*torch.Tensor) optim.Optimizer { return optim.NewAdamax(ps) },
		"adagrad": func(ps []*torch.Tensor) optim.Optimizer { return optim.NewAdagrad(ps) },
		"rmsprop": func(ps []*torch.Tensor) optim.Optimizer { return optim.NewRMSprop(ps, optim.Momentum(0.5)) },
	}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			run := func(inBackward bool) (weights [][]float32) {
				torch.ManualSeed(3)
				first, second := nn.NewLinear(7, 5), nn.NewLinear(5, 5)
				ps := append(nn.Parameters(first), nn.Parameters(second)...)
				o := make(ps)
				end := func() {}
				if inBackward {
					end = optim.InBackward(o)
				}
				step := func(frozen bool) {
					first.Weight.SetRequiresGrad(!frozen)
					o.ZeroGrad()
					torch.Scope(func(*torch.Arena) {
						h := second.Forward(first.Forward(torch.Randn(torch.S(4, 7))).Tanh())
						second.Forward(h).Square().Mean().Backward() // the second layer twice: its gradients come in two parts
					})
					for i, p := range ps {
						require.Equal(t, inBackward || frozen && i == 0, p.Grad() == nil, "parameter %d", i)
					}
					o.Step()
				}
				for range 3 {
					step(false)
				}
				step(true)
				step(false)
				if inBackward {
					end()
					inBackward = false
				}
				step(false)
				for _, p := range ps {
					weights = append(weights, torch.ToSlice[float32](p))
				}
				st := o.StateDict().Tensors
				require.NotEmpty(t, st)
				for _, k := range slices.Sorted(maps.Keys(st)) {
					weights = append(weights, torch.ToSlice[float32](st[k]))
				}
				return weights
			}
			require.Equal(t, run(false), run(true))
		})
	}
}
