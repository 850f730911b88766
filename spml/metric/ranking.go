package metric

import (
	"fmt"
	"slices"
)

// Ranking are the metrics that look at the order of the classes within each image, averaged over images.
type Ranking struct {
	// At holds precision, recall and hit rate of the k best-scored classes.
	At []AtK `json:"at"`
	// Coverage is how many of the best-scored classes must be taken to hold all of an image's positives, equal scores
	// counted as one step; 0 for an image without positives. scikit-learn: coverage_error.
	Coverage float64 `json:"coverage"`
	// RankingLoss is the share of (positive, negative) pairs in the wrong order, an equal score counts as wrong; 0 for an
	// image without positives or without negatives. scikit-learn: label_ranking_loss.
	RankingLoss float64 `json:"ranking_loss"`
	// LRAP is the label ranking average precision: the mean over an image's positives of the share of positives among the
	// classes scored at least as high; 1 for an image without positives or without negatives. scikit-learn:
	// label_ranking_average_precision_score.
	LRAP float64 `json:"lrap"`
	// OneError is the share of images whose best-scored class is not positive; images without positives count as errors.
	OneError float64 `json:"one_error"`
}

// AtK is about the k best-scored classes of an image; among equal scores the higher class index comes first. Precision
// is hits/k, also where k is above the number of classes, as Cole et al. count; recall hits/positives (0 without
// positives), Top the share of images with a hit.
type AtK struct {
	K         int     `json:"k"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	Top       float64 `json:"top"`
}

// Rankings computes the ranking metrics; ks are the numbers of best classes, each 1 or more.
func Rankings[S Score](scores []S, labels []int8, classes int, ks ...int) (Ranking, error) {
	if _, err := checkMatrix(scores, labels, classes); err != nil {
		return Ranking{}, err
	}
	r, err := newRanker(classes, ks)
	if err != nil {
		return Ranking{}, err
	}
	for i := 0; i < len(scores); i += classes {
		rankRow(r, scores[i:i+classes], labels[i:i+classes])
	}
	return r.mean(), nil
}

// ranker sums over images.
type ranker struct {
	n     int
	sum   Ranking
	order []int
}

func newRanker(classes int, ks []int) (*ranker, error) {
	r := &ranker{order: make([]int, classes)}
	for _, k := range ks {
		if k < 1 {
			return nil, fmt.Errorf("metric: precision at %d classes, want 1 or more", k)
		}
		r.sum.At = append(r.sum.At, AtK{K: k})
	}
	return r, nil
}

func rankRow[S Score](r *ranker, scores []S, labels []int8) {
	order := r.order
	for c := range order {
		order[c] = c
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return b - a
	})
	positives := 0
	for _, y := range labels {
		if y == 1 {
			positives++
		}
	}
	negatives := len(order) - positives
	r.n++
	if labels[order[0]] != 1 {
		r.sum.OneError++
	}
	hits, done := 0, 0
	for i := range r.sum.At {
		at := &r.sum.At[i]
		if at.K < done {
			hits, done = 0, 0
		}
		for ; done < min(at.K, len(order)); done++ {
			if labels[order[done]] == 1 {
				hits++
			}
		}
		at.Precision += float64(hits) / float64(at.K)
		at.Recall += ratio(float64(hits), float64(positives))
		if hits > 0 {
			at.Top++
		}
	}
	// Groups of equal scores from the best down.
	above, pairs, precision, coverage := 0, 0, 0.0, 0
	for i := 0; i < len(order); {
		end, here := i, 0
		for ; end < len(order) && scores[order[end]] == scores[order[i]]; end++ {
			if labels[order[end]] == 1 {
				here++
			}
		}
		if here > 0 {
			above += here
			coverage = end
			pairs += here * (end - above) // negatives at least as high
			precision += float64(here) * float64(above) / float64(end)
		}
		i = end
	}
	r.sum.Coverage += float64(coverage)
	if positives == 0 || negatives == 0 {
		r.sum.LRAP++
		return
	}
	r.sum.LRAP += precision / float64(positives)
	r.sum.RankingLoss += float64(pairs) / float64(positives*negatives)
}

func (r *ranker) mean() Ranking {
	m, n := r.sum, float64(max(r.n, 1))
	m.At = slices.Clone(m.At)
	for i := range m.At {
		at := &m.At[i]
		at.Precision, at.Recall, at.Top = at.Precision/n, at.Recall/n, at.Top/n
	}
	m.Coverage, m.RankingLoss, m.LRAP, m.OneError = m.Coverage/n, m.RankingLoss/n, m.LRAP/n, m.OneError/n
	return m
}
