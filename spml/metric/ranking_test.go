package metric

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers are those of compute_precision_at_k and compute_recall_at_k of the released code of Cole et al. (commit
// 89152d5, metrics.py), which divides by k where there are fewer classes, as instrumentation.py takes their means.
func TestAtKAboveTheClasses(t *testing.T) {
	scores := []float64{0.9, 0.2, 0.4, 0.1, 0.8, 0.3, 0.5, 0.6, 0.7, 0.3, 0.2, 0.1}
	labels := []int8{1, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0}
	r, err := Rankings(scores, labels, 3, 5, 1, 3, 7)
	require.NoError(t, err)
	require.Len(t, r.At, 4)
	for i, want := range []AtK{
		{5, 0.3, 0.75, 0.75}, {1, 0.5, 5. / 24, 0.5}, {3, 0.5, 0.75, 0.75}, {7, 3. / 14, 0.75, 0.75},
	} {
		require.Equal(t, want.K, r.At[i].K)
		require.InDelta(t, want.Precision, r.At[i].Precision, 1e-15, "k = %d", want.K)
		require.InDelta(t, want.Recall, r.At[i].Recall, 1e-15, "k = %d", want.K)
		require.InDelta(t, want.Top, r.At[i].Top, 1e-15, "k = %d", want.K)
	}
}
