package metric

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func flat[T any](rows [][]T) (out []T) {
	for _, r := range rows {
		out = append(out, r...)
	}
	return out
}

func TestGoldenMatrix(t *testing.T) {
	var g struct {
		Metrics struct {
			Matrix struct {
				Y     [][]int8
				Score [][]float64
				F1    []struct {
					Threshold      float64
					Micro          float64 `json:"micro_f1"`
					Macro          float64 `json:"macro_f1"`
					CP, CR, OP, OR float64
				}
				At1 AtK `json:"at_1"`
				At3 AtK `json:"at_3"`
			}
			PseudoLabelQuality struct {
				Y, Pseudo, Observed [][]int8
				Precision, Recall   float64
				F1                  float64 `json:"f1_correct"`
			} `json:"pseudo_label_quality"`
			Wasserstein []struct {
				A, B []float64
				W1   float64
			}
		}
		Confidence struct {
			P           []float64
			Y, Observed []int8
			Bins        int
			Positives   []int     `json:"positive_counts"`
			Negatives   []int     `json:"negative_counts"`
			Ratio       []float64 `json:"false_negative_ratio"`
			W1          float64
		}
	}
	readJSON(t, "golden.json", &g)
	m := g.Metrics.Matrix
	require.Len(t, m.F1, 2)
	for _, want := range m.F1 {
		r, err := Evaluate(flat(m.Score), flat(m.Y), 4, Options{Thresholds: []float64{want.Threshold}})
		require.NoError(t, err)
		require.InDeltaSlice(t, []float64{want.Micro, want.Macro, want.CP, want.CR, want.OP, want.OR},
			[]float64{r.Micro.F1, r.Macro.F1, r.Macro.Precision, r.Macro.Recall, r.Micro.Precision, r.Micro.Recall}, 1e-9)
		for i, want := range []AtK{m.At1, m.At3} {
			require.InDeltaSlice(t, []float64{want.Precision, want.Recall, want.Top}, []float64{r.At[i].Precision, r.At[i].Recall, r.At[i].Top}, 1e-12)
		}
	}
	// Cole et al. cut the order at k and divide by k: with k = 9 of 4 classes, 7 positives in 5 rows.
	above, err := Rankings(flat(m.Score), flat(m.Y), 4, 9, 1)
	require.NoError(t, err)
	require.InDelta(t, 7.0/9/5, above.At[0].Precision, 1e-12)
	require.InDelta(t, 1, above.At[0].Recall, 1e-12)
	require.InDelta(t, m.At1.Precision, above.At[1].Precision, 1e-12)

	q := g.Metrics.PseudoLabelQuality
	var quality PseudoQuality
	for i := range q.Y {
		require.NoError(t, quality.Add(q.Y[i], q.Pseudo[i], q.Observed[i]))
	}
	require.InDeltaSlice(t, []float64{q.Precision, q.Recall, q.F1}, []float64{100 * quality.Precision(), 100 * quality.Recall(), 100 * quality.F1()}, 1e-6)
	require.ErrorContains(t, quality.Add(make([]int8, 2), make([]int8, 3), nil), "2 true, 3 pseudo and 0 observed")

	require.Len(t, g.Metrics.Wasserstein, 4)
	for _, w := range g.Metrics.Wasserstein {
		d, err := Wasserstein(w.A, w.B)
		require.NoError(t, err)
		require.InDelta(t, w.W1, d, 1e-12)
	}
	c := g.Confidence
	s, err := Separate(c.P, c.Y, c.Observed, c.Bins)
	require.NoError(t, err)
	require.Equal(t, c.Positives, s.Positives)
	require.Equal(t, c.Negatives, s.Negatives)
	require.InDeltaSlice(t, c.Ratio, s.FalseNegativeRatio(), 1e-8)
	require.InDelta(t, c.W1, s.W1, 1e-9, "of predictions rounded to nine digits")
	s, err = Separate([]float32{0.5}, []int8{0}, []int8{0}, 10)
	require.NoError(t, err)
	require.True(t, math.IsNaN(s.W1))
	_, err = Separate([]float32{1.5}, []int8{0}, []int8{0}, 10)
	require.ErrorIs(t, err, ErrNotProbability)
}

func TestReportErrors(t *testing.T) {
	scores, labels := make([]float32, 12), make([]int8, 12)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{AP: "area"}, `unknown form of average precision "area"`},
		{Options{Thresholds: []float64{1, 2}}, "2 thresholds for 3 classes"},
		{Options{Thresholds: []float64{math.NaN()}}, "threshold is NaN"},
		{Options{K: []int{0}}, "precision at 0 classes"},
		{Options{Bins: -1}, "-1 bins"},
	} {
		_, err := Evaluate(scores, labels, 3, c.o)
		require.ErrorContains(t, err, c.want)
	}
	_, err := NewAccumulator[float32](0, Options{})
	require.Error(t, err)
	a, err := NewAccumulator[float64](3, Options{})
	require.NoError(t, err)
	require.NoError(t, a.Add(make([]float64, 6), make([]int8, 6)))
	err = a.Add([]float64{1, 2, 3, 4, math.NaN(), 5}, make([]int8, 6))
	require.ErrorContains(t, err, "row 3, class 1 is NaN")
	r, err := a.Report()
	require.NoError(t, err)
	require.Equal(t, 2, r.Images, "a refused batch counts for nothing")

	r, err = Evaluate([]float32{3, -1, 2}, []int8{1, 0, 1}, 3, Options{})
	require.NoError(t, err)
	require.Nil(t, r.Calibration, "logits are no probabilities")
	_, err = Calibrations([]float32{0.5, 2}, []int8{1, 0}, 2, 10)
	require.ErrorIs(t, err, ErrNotProbability)
	require.ErrorContains(t, err, "row 0, class 1 has 2")
	r, err = Evaluate([]float32{}, nil, 3, Options{})
	require.NoError(t, err)
	require.Zero(t, r.MAP+r.Hamming+r.LRAP)
}

// Two float64 scores that are one float32 are still two.
func TestFloat64ScoresAreNotRounded(t *testing.T) {
	scores := []float64{0.5, 0.5 + 1e-12}
	ap, err := AveragePrecision(scores, []int8{1, 0}, 1, Step)
	require.NoError(t, err)
	require.Equal(t, []float64{0.5}, ap)
	require.InDeltaSlice(t, []float64{0, 0.5, 1}, Sigmoid([]float64{-800, 0, 800}), 1e-300)
}

func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{1000, 40504} {
		scores, labels := make([]float32, n*80), make([]int8, n*80)
		for i := range scores {
			scores[i] = float32(i*2654435761%(1<<24)) / (1 << 24)
			labels[i] = int8(i % 29 / 28)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Evaluate(scores, labels, 80, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The highest 40 % of each class's unannotated labels: of five rows one is annotated, so round(0.4·4) = 2 are taken.
// Ties go to the earlier row.
func TestTopShare(t *testing.T) {
	scores := []float32{0.9, 0.1, 0.8, 0.7, 0.8, 0.7, 0.2, 0.7, 0.1, 0.9}
	truth := []int8{1, 0, 1, 1, 0, 0, 0, 1, 1, 1}
	observed := []int8{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	q, err := TopShare(scores, truth, observed, 2, 0.4)
	require.NoError(t, err)
	require.Equal(t, PseudoQuality{Pseudo: 4, Correct: 2, Hidden: 4}, q) // class 0: rows 1 and 2 of which one is true; class 1: rows 1 and 2 of the tied three
	_, err = TopShare(scores, truth, observed[:3], 2, 0.4)
	require.Error(t, err)
	_, err = TopShare(scores, truth, observed, 2, 1.5)
	require.ErrorContains(t, err, "share 1.5")
}
