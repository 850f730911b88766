package loss_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Backward from a fused loss onto leaves does without autograd's engine: gradients are added up, hooks are called, and a graph that goes on gets
// what the engine gives.
func TestFusedStraight(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 1}, 2, 2)
	numbers := func(x *torch.Tensor) []float32 { return torch.ToSlice[float32](x) }
	fused, err := loss.New("em", "", nil, loss.Options{Impl: loss.Fused})
	require.NoError(t, err)
	value := func(z *torch.Tensor) *torch.Tensor {
		v, err := fused.Value(loss.Batch{Logits: z, Observed: y})
		require.NoError(t, err)
		return v
	}
	leaf := func() *torch.Tensor {
		return torch.FromSlice([]float32{1, -2, 0.5, 3}, 2, 2).SetRequiresGrad(true)
	}
	z := leaf()
	v := value(z)
	v.Backward()
	once := numbers(z.Grad())
	_, g, err := loss.ValueGrad(fused, loss.Batch{Logits: leaf().Detach(), Observed: y})
	require.NoError(t, err)
	require.Equal(t, numbers(g), once)
	require.ErrorContains(t, torch.Try(func() { v.Backward() }), "second time")
	value(z).Backward()
	for i, x := range numbers(z.Grad()) {
		require.InDelta(t, 2*once[i], x, 1e-7)
	}

	// Through the engine: another root's gradient, a graph above, a hook.
	z = leaf()
	value(z.MulScalar(2)).Backward()
	require.NotEqual(t, once, numbers(z.Grad()))
	z = leaf()
	torch.Backward([]*torch.Tensor{value(z), value(z)})
	for i, x := range numbers(z.Grad()) {
		require.InDelta(t, 2*once[i], x, 1e-7)
	}
	z = leaf()
	called := 0
	z.RegisterHook(func(g *torch.Tensor) *torch.Tensor {
		called++
		return g.MulScalar(3)
	})
	value(z).Backward()
	require.Equal(t, 1, called)
	for i, x := range numbers(z.Grad()) {
		require.InDelta(t, 3*once[i], x, 1e-6)
	}
}
