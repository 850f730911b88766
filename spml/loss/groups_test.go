package loss_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// TestGroupWeight: the groups' term with any loss, in both forms.
func TestGroupWeight(t *testing.T) {
	require.NoError(t, loss.FusedAvailable())
	for _, e := range loss.Entries() {
		o := loss.Options{GroupWeight: 0.7}
		if e.Needs&loss.GroupScores != 0 {
			_, err := e.Make("", nil, o)
			require.ErrorContains(t, err, "by its own parameter group_weight")
			continue
		}
		if e.Needs&loss.ScoreMaps != 0 { // its logits are no leaf
			continue
		}
		for _, impl := range []loss.Impl{loss.Composed, loss.Fused} {
			if impl == loss.Fused && e.Fused == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", e.ID, impl), func(t *testing.T) {
				for _, reduction := range []loss.Reduction{loss.Mean, loss.Sum} {
					b, _, _ := losstest.Batch(e, losstest.Shape{B: 4, C: 5, DType: torch.Float64, Seed: 8, Observed: losstest.Mixed})
					b.Logits = b.Logits.Detach()
					plain, err := e.Make("", nil, loss.Options{Impl: impl, Reduction: reduction})
					require.NoError(t, err)
					o.Impl, o.Reduction = impl, reduction
					grouped, err := e.Make("", nil, o)
					require.NoError(t, err)
					var part float64
					v, g, err := loss.ValueGrad(plain, b)
					require.NoError(t, err)
					b.Report = func(name string, v *torch.Tensor) {
						if name == "group" {
							part = v.Item()
						}
					}
					w, h, err := loss.ValueGrad(grouped, b)
					require.NoError(t, err)
					z := b.Logits.Clone().SetRequiresGrad(true)
					in := b.Group.GeScalar(0).ToDType(torch.Float64)
					term := z.BinaryCrossEntropyWithLogits(b.Group.ClampMin(0), in, nil, torch.ReductionSum)
					if reduction == loss.Mean {
						term = term.DivScalar(20)
					}
					term.Backward()
					require.InDelta(t, v.Item()+0.7*term.Item(), w.Item(), 1e-10)
					require.InDelta(t, term.Item(), part, 1e-10)
					require.InDeltaSlice(t, torch.ToSlice[float64](g.Add(z.Grad().MulScalar(0.7)).Contiguous()),
						torch.ToSlice[float64](h.Contiguous()), 1e-10)
				}
			})
		}
	}
	_, err := loss.New("an", "", nil, loss.Options{GroupWeight: -1})
	require.ErrorContains(t, err, "the groups' weight is -1")
	l, err := loss.New("an", "", nil, loss.Options{GroupWeight: 1})
	require.NoError(t, err)
	_, err = l.Value(loss.Batch{Logits: torch.Zeros(torch.S(1, 2)), Observed: torch.Zeros(torch.S(1, 2))})
	require.ErrorContains(t, err, "the scores of groups are missing")
}
