package vlm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
)

// C(M)^(1/n) is the geometric mean of the scores of true positives.
func TestConfidence(t *testing.T) {
	ds := &data.Dataset{Classes: []string{"a", "b"}, Images: []string{"0", "1", "2"}, Labels: []int8{1, 0, 1, 1, 1, 1}, Observed: []int8{1, 0, 1, 0, 0, 1}, Full: []bool{true, true, false}}
	q := quality{ds: ds, usable: []int{0, 1, 2}}
	require.NoError(t, q.add([]int{0, 1, 2}, []int8{1, 0, 0, 1, 1, 1}, []float32{0.5, 0.5, 0.25, 0.75, 1, 0}))
	r := q.Record()
	require.InDelta(t, math.Cbrt(0.5*0.25*0.75), r.Confidence, 1e-9)
	require.Equal(t, 1, r.Correct)
}
