package metric

import (
	"cmp"
	"math"
	"slices"
)

// BestThresholds returns for each class the threshold with the highest F1 of these scores, and that F1. To be chosen on validation and used on test.
//
// A threshold lies half-way between two neighbouring scores, so that rounding does not move a prediction; among equals the highest is taken. A class without
// positives gets fallback and F1 0.
func BestThresholds[S Score](scores []S, labels []int8, classes int, fallback float64) (thresholds, f1 []float64, err error) {
	if _, err := checkMatrix(scores, labels, classes); err != nil {
		return nil, nil, err
	}
	n := len(scores) / classes
	thresholds, f1 = make([]float64, classes), make([]float64, classes)
	rows := make([]int, n)
	for c := range classes {
		at := func(i int) float64 { return float64(scores[rows[i]*classes+c]) }
		positives := 0
		for i := range rows {
			rows[i] = i
			if labels[i*classes+c] == 1 {
				positives++
			}
		}
		thresholds[c] = fallback
		if positives == 0 {
			continue
		}
		slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(scores[b*classes+c], scores[a*classes+c]) })
		tp := 0
		for i := range rows {
			if labels[rows[i]*classes+c] == 1 {
				tp++
			}
			if i+1 < n && at(i+1) == at(i) {
				continue // not between two scores
			}
			f := 2 * float64(tp) / float64(i+1+positives)
			if f <= f1[c] {
				continue
			}
			f1[c] = f
			if i+1 == n {
				thresholds[c] = at(i) - max(1e-6, 1e-6*math.Abs(at(i)))
				continue
			}
			// Half-way as the scores' type has it: CountAt rounds to that.
			middle := S(at(i)/2 + at(i+1)/2)
			if !(float64(middle) < at(i)) {
				middle = S(at(i + 1))
			}
			thresholds[c] = float64(middle)
		}
	}
	return thresholds, f1, nil
}
