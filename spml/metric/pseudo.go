package metric

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// PseudoQuality says how good pseudo-positives are, over the entries that are no observed positives. Source: the log of
// Fsoft-AIC/AEVLP, train.py.
type PseudoQuality struct {
	Pseudo  int `json:"pseudo"`  // pseudo-positives
	Correct int `json:"correct"` // those that are true positives
	Hidden  int `json:"hidden"`  // true positives that are not observed
}

// Precision is Correct/Pseudo, 0 without pseudo-positives.
func (q PseudoQuality) Precision() float64 { return ratio(float64(q.Correct), float64(q.Pseudo)) }

// Recall is Correct/Hidden, 0 without hidden positives.
func (q PseudoQuality) Recall() float64 { return ratio(float64(q.Correct), float64(q.Hidden)) }

// F1 is the harmonic mean of precision and recall. The papers' code prints 1/(1/P+1/R), which is half of it.
func (q PseudoQuality) F1() float64 {
	return ratio(2*float64(q.Correct), float64(q.Pseudo+q.Hidden))
}

// Add adds a batch: each of truth, pseudo and observed holds one value an entry, 1 for positive.
func (q *PseudoQuality) Add(truth, pseudo, observed []int8) error {
	if len(truth) != len(pseudo) || len(truth) != len(observed) {
		return fmt.Errorf("metric: %d true, %d pseudo and %d observed labels", len(truth), len(pseudo), len(observed))
	}
	for i := range truth {
		if observed[i] == 1 {
			continue
		}
		if truth[i] == 1 {
			q.Hidden++
		}
		if pseudo[i] == 1 {
			q.Pseudo++
			if truth[i] == 1 {
				q.Correct++
			}
		}
	}
	return nil
}

// TopShare takes the highest-scored share of each class's entries that are no observed positives as pseudo-positives,
// round(share·n) of n, and says how good they are. Matrices are [N, classes] in row-major order, 1 for positive; ties
// go to the earlier row.
//
// Source: Zhou et al. 2022 (EM), supplement, Table 6, with a share of 0.1.
func TopShare[S Score](scores []S, truth, observed []int8, classes int, share float64) (q PseudoQuality, err error) {
	if _, err := checkMatrix(scores, truth, classes); err != nil {
		return q, err
	}
	if len(observed) != len(truth) || !(share >= 0 && share <= 1) {
		return q, fmt.Errorf("metric: %d true and %d observed labels, share %v", len(truth), len(observed), share)
	}
	for c := range classes {
		var open []int
		for r := range len(scores) / classes {
			if at := r*classes + c; observed[at] != 1 {
				open = append(open, at)
				q.Hidden += int(truth[at])
			}
		}
		slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		for _, at := range open[:int(math.Round(share*float64(len(open))))] {
			q.Pseudo++
			q.Correct += int(truth[at])
		}
	}
	return q, nil
}

// Wasserstein returns the 1-Wasserstein distance of two samples, ∫ |F_a − F_b|. scipy: wasserstein_distance.
func Wasserstein(a, b []float64) (float64, error) {
	if len(a) == 0 || len(b) == 0 {
		return 0, errors.New("metric: the Wasserstein distance of an empty sample")
	}
	for _, v := range append(slices.Clone(a), b...) {
		if v-v != 0 {
			return 0, fmt.Errorf("metric: the Wasserstein distance of a sample with %v", v)
		}
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	sum, i, j := 0.0, 0, 0
	last := min(a[0], b[0])
	for i < len(a) || j < len(b) {
		next := math.Inf(1)
		if i < len(a) {
			next = a[i]
		}
		if j < len(b) {
			next = min(next, b[j])
		}
		sum += (next - last) * math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b)))
		last = next
		for i < len(a) && a[i] == next {
			i++
		}
		for j < len(b) && b[j] == next {
			j++
		}
	}
	return sum, nil
}

// Separation is how far apart a model holds the hidden positives and the true negatives: entries that are observed as
// negative, by their true label, pooled over classes. Source: Chen et al. 2024 (GR), Figs. 3 and 5.
type Separation struct {
	// W1 is the 1-Wasserstein distance of the two samples of predictions; NaN where one is empty.
	W1 float64
	// Positives and Negatives count them in equal bins on [0, 1], each with its lower edge, the last also with 1.
	Positives, Negatives []int
}

// FalseNegativeRatio is positives / (positives + negatives + 1e-9) of each bin.
func (s Separation) FalseNegativeRatio() []float64 {
	out := make([]float64, len(s.Positives))
	for i := range out {
		out[i] = float64(s.Positives[i]) / (float64(s.Positives[i]+s.Negatives[i]) + 1e-9)
	}
	return out
}

// Separate compares the predictions (probabilities) of hidden positives and true negatives in the given number of bins.
func Separate[S Score](probabilities []S, truth, observed []int8, bins int) (Separation, error) {
	if _, err := checkMatrix(probabilities, truth, 1); err != nil {
		return Separation{}, err
	}
	if len(observed) != len(truth) || bins < 1 {
		return Separation{}, fmt.Errorf("metric: %d true and %d observed labels in %d bins", len(truth), len(observed), bins)
	}
	out := Separation{W1: math.NaN(), Positives: make([]int, bins), Negatives: make([]int, bins)}
	var hidden, negative []float64
	for i, v := range probabilities {
		p := float64(v)
		if p < 0 || p > 1 {
			return Separation{}, fmt.Errorf("%w: entry %d has %v", ErrNotProbability, i, p)
		}
		if observed[i] == 1 {
			continue
		}
		bin := min(int(p*float64(bins)), bins-1)
		if truth[i] == 1 {
			hidden = append(hidden, p)
			out.Positives[bin]++
		} else {
			negative = append(negative, p)
			out.Negatives[bin]++
		}
	}
	if len(hidden) > 0 && len(negative) > 0 {
		w, err := Wasserstein(hidden, negative)
		if err != nil {
			return Separation{}, err
		}
		out.W1 = w
	}
	return out, nil
}
