package method

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// CRISP takes the frequencies of validation rows where it is told to, and says where there are none.
func TestValidationPriors(t *testing.T) {
	m, err := Lookup("crisp")
	require.NoError(t, err)
	for _, val := range []int{0, 40} {
		ds, err := shapes.New(3, 10, val, 5)
		require.NoError(t, err)
		ds, err = ds.WithSinglePositives(3)
		require.NoError(t, err)
		v, err := m.Loss.Resolve("", loss.Values{"prior": loss.PriorsOfValidation})
		require.NoError(t, err)
		e, err := m.New(&Setup{Method: m, Values: v, Data: ds, Rows: []int{0, 1, 2, 3}})
		if val == 0 {
			require.ErrorContains(t, err, "prior=validation takes the class frequencies of validation rows")
			continue
		}
		require.NoError(t, err)
		got := torch.ToSlice[float32](e.(*label.Priors).Prior())
		for c := range got {
			n := 0
			for i := 10; i < 50; i++ {
				n += int(ds.Labels[i*len(got)+c])
			}
			require.InDelta(t, float64(n)/40, got[c], 1e-6)
		}
	}
}
