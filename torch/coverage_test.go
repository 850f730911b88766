package torch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// TestGradientCoverage: an operator of the table that libtorch differentiates has a case whose gradient PyTorch gave, so that TestOpGradients checks it. The
// operators of which no case can be checked by differences are counted, so that one more is seen.
func TestGradientCoverage(t *testing.T) {
	torchtest.NoLeaks(t)
	golden, byDifferences := map[string]bool{}, map[string]bool{}
	for _, c := range opCases() {
		if c.Grad != nil {
			golden[c.Op] = true
			if c.NoCheck == 0 && float64Only(c) {
				byDifferences[c.Op] = true
			}
		}
	}
	differentiable := map[string]bool{}
	for _, c := range opCases() {
		if golden[c.Op] || differentiable[c.Op] {
			continue
		}
		torch.Scope(func(*torch.Arena) { differentiable[c.Op] = c.gradientFlows() })
		// In place on lists and fused: steps of optimizers, which record nothing.
		if differentiable[c.Op] && !strings.HasPrefix(c.Op, "aten::_foreach_") && !strings.HasPrefix(c.Op, "aten::_fused_") {
			t.Errorf("%s is differentiable and no case of testdata/torch/ops.json has its gradient", c.Op)
		}
	}
	require.Greater(t, len(golden), 200)
	require.LessOrEqual(t, len(golden)-len(byDifferences), 12, "operators with a gradient that differences cannot check")
	t.Logf("%d operators with cases and PyTorch's gradients, %d of them checked by differences too", len(golden), len(byDifferences))
}

// gradientFlows says whether a gradient that is not zero reaches an argument when every floating point argument asks for one. Random fills give zero; where
// libtorch has no derivative backward raises.
func (c *opCase) gradientFlows() (yes bool) {
	passed := make([]any, len(c.Args))
	var leaves []*torch.Tensor
	ask := func(x *torch.Tensor, written bool) *torch.Tensor {
		if x == nil || !x.DType().IsFloat() {
			return x
		}
		leaves = append(leaves, x.SetRequiresGrad(true))
		if written {
			return x.Clone()
		}
		return x
	}
	for i := range c.Args {
		_, written := c.After[i]
		passed[i] = c.live(i, false)
		switch x := passed[i].(type) {
		case *torch.Tensor:
			passed[i] = ask(x, written)
		case []*torch.Tensor:
			for k := range x {
				x[k] = ask(x[k], written)
			}
		}
	}
	if c.Seed != nil {
		torch.ManualSeed(*c.Seed)
	}
	_ = torch.Try(func() {
		outs := c.differentiable(passed, torch.Call(c.Op, passed...))
		if len(outs) == 0 {
			return
		}
		torch.Backward(outs, torch.WithGradient(weights(outs)...))
		for _, x := range leaves {
			yes = yes || x.Grad() != nil && x.Grad().Abs().Sum().Item() > 0
		}
	})
	return yes
}
