package compare

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
)

// The test part's zero-shot scores are a softmax over the classes, and better than chance.
func TestZeroShot(t *testing.T) {
	c := config.Config{
		Method: config.Method{ID: "vlpl"}, Data: config.Data{Path: config.Shapes, Options: config.DataOptions{}},
		Pseudo: config.Pseudo{Clip: config.BuiltinClip},
	}
	s, m, err := zeroShot(context.Background(), c)
	require.NoError(t, err)
	require.NotEmpty(t, s.Rows)
	require.Greater(t, m, 40.0)
	for i := range s.Rows {
		sum := 0.0
		for _, x := range s.Values[i*12 : (i+1)*12] {
			sum += float64(x)
		}
		require.InDelta(t, 1, sum, 1e-4)
	}
}
