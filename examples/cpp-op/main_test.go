package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

func TestSoftClip(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "example::softclip(Tensor x, float limit) -> Tensor\ntensor([-2.0000, -0.9242,  0.0999,  1.8103])\n")

	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		x := torch.FromSlice([]float64{-3, -0.5, 0, 0.25, 7}, 1, 5).SetRequiresGrad(true)
		for i, v := range torch.ToSlice[float64](SoftClip(x, 1.5)) {
			require.InDelta(t, 1.5*math.Tanh(torch.ToSlice[float64](x)[i]/1.5), v, 1e-15)
		}
		f := func(in []*torch.Tensor) *torch.Tensor { return SoftClip(in[0], 1.5) }
		torchtest.Gradcheck(t, f, []*torch.Tensor{x})
		torchtest.Gradgradcheck(t, f, []*torch.Tensor{x})
		require.ErrorIs(t, torch.Try(func() { SoftClip(x, 0) }), torch.ErrValue)
	})
}
