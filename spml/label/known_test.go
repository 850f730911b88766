package label

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// A label that is known to be negative is never raised, never ranked among the unknown ones, and asymmetric
// pseudo-labelling does not take it for a negative whose soft target is 1.
func TestKnownNegatives(t *testing.T) {
	y := torch.FromSlice([]int8{1, -1, 0, 0, 1, -1}, 2, 3)
	high := mat(2, 3, 0.9, 0.99, 0.98, 0.2, 0.9, 0.99)

	m, err := NewThreshold(y, 0.95, 1)
	require.NoError(t, err)
	require.NoError(t, m.Update([]int{0, 1}, high))
	require.Equal(t, []float64{1, -1, 1, 0, 1, -1}, flat(m.Labels), "raised above 0.95")
	l, err := NewLargeLoss(y)
	require.NoError(t, err)
	require.NoError(t, l.Flip([]int{0, 1}, torch.Ones(torch.S(2, 3), torch.Bool)))
	require.Equal(t, []float64{1, -1, 1, 1, 1, -1}, flat(l.Labels))

	a, err := NewAPL(y, torch.Float64, APLConfig{Theta: 1, Epochs: 3, Warmup: 1})
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 0}, a.Quota(), "half of one unknown label")
	const known = loss.KnownNegative
	require.Equal(t, []float64{1, known, 0, 0, 1, known}, flat(a.Labels))
	a, err = NewAPL(y, torch.Float64, APLConfig{Theta: 1, Epochs: 2, Warmup: 1})
	require.NoError(t, err)
	n, err := a.Update(high)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []float64{1, known, -0.98, -0.2, 1, known}, flat(a.Labels))

	labels, counts := TopLabels(high, y, mat(1, 3, 0.5, 0.5, 0.5), 2)
	require.Equal(t, []float64{1, 0, 1, 0, 1, 0}, flat(labels))
	require.Equal(t, []float64{1, 1}, flat(counts))
	labels, _ = TopLabels(high, torch.FromSlice([]int8{1, -1, -1, 0, 1, 0}, 2, 3), mat(1, 3, 0, 0, 0), 3)
	require.Equal(t, []float64{1, 0, 0, 1, 1, 1}, flat(labels), "more top labels than there are")

	// Six images, two of which may have the class: those with the best averages, not one that is known not to.
	average := mat(6, 1, 0.1, 0.9, 0.8, 0.7, 0.2, 0.3)
	mask, err := ExpectedNegatives(average, torch.FromSlice([]int8{0, -1, 0, 0, 0, 0}, 6, 1), []int{2})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1, 0, 0, 1, 1}, flat(mask))
}

// The frequencies that CRISP estimates are of all images, and so is the mean score that they are held against: with
// half of the images known not to have a class, the scores of the others that are right by the estimate have no term.
func TestPriorsOfKnownNegatives(t *testing.T) {
	y := []int8{1, 0, 0, 0, -1, -1, -1, -1}
	scores := []float64{0.9, 0.9, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1}
	all, err := ClassPriors(scores, y, 1, 0.01, 0.01)
	require.NoError(t, err)
	require.InDelta(t, 0.25, all[0].Prior, 1e-12, "two of eight")

	logit := func(p float64) float64 { return math.Log(p / (1 - p)) }
	z := make([]float64, len(y))
	for i := range z {
		z[i] = logit(0.5) // 4 × 0.5 of 8 images
	}
	var align float64
	l, err := loss.New("crisp", "", nil, loss.Options{})
	require.NoError(t, err)
	_, err = l.Value(loss.Batch{Logits: torch.FromSlice(z, 8, 1), Observed: torch.FromSlice(y, 8, 1), Epoch: 5,
		Prior: torch.FromSlice([]float64{0.25}, 1), Report: func(part string, v *torch.Tensor) {
			if part == "alignment_part" {
				align = v.Sum().Item()
			}
		}})
	require.NoError(t, err)
	require.InDelta(t, 0, align, 1e-12)
}
