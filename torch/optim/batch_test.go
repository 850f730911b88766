package optim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

// A kernel call takes tensors of one type and device, whose state is there or is to be filled: CUDA's kernels need
// the former, momentum the latter.
func TestBatchesAreUniform(t *testing.T) {
	param := func(d torch.DType) *torch.Tensor { return torch.Ones(torch.S(2), d, torch.RequiresGrad) }
	ps := []*torch.Tensor{param(torch.Float32), param(torch.Float64), param(torch.Float32), param(torch.BFloat16)}
	o := NewSGD(ps, Momentum(0.9))
	step := func(n int) {
		o.ZeroGrad()
		for _, p := range ps[:n] {
			p.Square().Sum().Backward()
		}
		o.Step()
	}
	sizes := func() (n []int) {
		for _, b := range o.groups[0].batches {
			if len(b.params) > 0 {
				n = append(n, len(b.params))
				for i, p := range b.params {
					require.Equal(t, b.dtype, p.DType())
					require.Equal(t, b.dtype, b.state[0][i].DType())
				}
			}
		}
		return n
	}
	step(2)
	require.Equal(t, []int{1, 1}, sizes())
	step(4) // the third is new, the first is not
	require.Equal(t, []int{1, 1, 1, 1}, sizes())
	step(4)
	require.ElementsMatch(t, []int{2, 1, 1}, sizes())
	require.Less(t, torch.ToSlice[float32](ps[3])[0], float32(1))
}
