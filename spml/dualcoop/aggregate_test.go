package dualcoop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// The numbers are compared with the released code by cmd/golden.
func TestAggregate(t *testing.T) {
	torch.ManualSeed(1)
	torch.Scope(func(*torch.Arena) {
		x, w := torch.Randn(torch.S(2, 4, 3), torch.Float64), torch.Randn(torch.S(6, 4), torch.Float64)
		logits, p, err := Aggregate(x, w)
		require.NoError(t, err)
		require.Equal(t, []int{2, 2, 3}, logits.Shape())
		require.Equal(t, []int{2, 3}, p.Shape())
		scaled, _, err := Aggregate(x.MulScalar(3), w.MulScalar(7))
		require.NoError(t, err)
		torchtest.AllClose(t, scaled, logits, 1e-9, 1e-9) // cosines do not see lengths
		one, _, err := Aggregate(x.Narrow(2, 0, 1), w)
		require.NoError(t, err)
		require.LessOrEqual(t, one.Abs().Max().Item(), 100.0+1e-9, "one region: 5·20·cos")
		for _, bad := range [][2]*torch.Tensor{{x, w.Narrow(0, 0, 5)}, {x, w.Narrow(1, 0, 3)}, {nil, w}, {x.Select(0, 0), w}} {
			_, _, err := Aggregate(bad[0], bad[1])
			require.ErrorContains(t, err, "want regions [B, E, L]")
		}
	})
}
