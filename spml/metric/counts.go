package metric

import (
	"fmt"
	"math"
)

// Counts are the outcomes of a class (or of several, pooled) at a threshold.
type Counts struct{ TP, FP, FN, TN int }

// Add adds the counts of another class or batch.
func (c *Counts) Add(d Counts) {
	c.TP += d.TP
	c.FP += d.FP
	c.FN += d.FN
	c.TN += d.TN
}

// Precision is TP / (TP + FP), 0 where nothing was predicted.
func (c Counts) Precision() float64 { return ratio(float64(c.TP), float64(c.TP+c.FP)) }

// Recall is TP / (TP + FN), 0 without positives.
func (c Counts) Recall() float64 { return ratio(float64(c.TP), float64(c.TP+c.FN)) }

// F1 is 2TP / (2TP + FP + FN), 0 where there is nothing to find and nothing was predicted.
func (c Counts) F1() float64 { return ratio(2*float64(c.TP), float64(2*c.TP+c.FP+c.FN)) }

// Accuracy is the share of right decisions.
func (c Counts) Accuracy() float64 {
	return ratio(float64(c.TP+c.TN), float64(c.TP+c.FP+c.FN+c.TN))
}

// ratio is a/b, 0 for 0/0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// PRF is precision, recall and F1, each in [0, 1].
type PRF struct {
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
}

func (c Counts) prf() PRF { return PRF{c.Precision(), c.Recall(), c.F1()} }

// Pooled adds the counts of all classes: [Micro] is computed from them.
func Pooled(perClass []Counts) (all Counts) {
	for _, c := range perClass {
		all.Add(c)
	}
	return all
}

// Micro pools the counts of all classes. In the ASL family's names: OP, OR, OF1.
func Micro(perClass []Counts) PRF { return Pooled(perClass).prf() }

// Macro is the unweighted mean over classes of each of the three. In the ASL family's names: CP, CR, CF1; CF1 is the
// mean of the classes' F1, not the harmonic mean of CP and CR.
func Macro(perClass []Counts) PRF { return averaged(perClass, func(Counts) float64 { return 1 }) }

// Weighted is the mean over classes weighted by their positives, as scikit-learn's average="weighted".
func Weighted(perClass []Counts) PRF {
	return averaged(perClass, func(c Counts) float64 { return float64(c.TP + c.FN) })
}

func averaged(perClass []Counts, weight func(Counts) float64) (m PRF) {
	total := 0.0
	for _, c := range perClass {
		w := weight(c)
		total += w
		m.Precision += w * c.Precision()
		m.Recall += w * c.Recall()
		m.F1 += w * c.F1()
	}
	return PRF{ratio(m.Precision, total), ratio(m.Recall, total), ratio(m.F1, total)}
}

// CountAt counts the outcomes of each class, where a score above the threshold is a prediction. thresholds holds one
// value for all classes or one for each. A threshold is rounded to the scores' type first, as PyTorch and numpy do.
func CountAt[S Score](scores []S, labels []int8, classes int, thresholds ...float64) ([]Counts, error) {
	if _, err := checkMatrix(scores, labels, classes); err != nil {
		return nil, err
	}
	at, err := perClassThresholds(classes, thresholds)
	if err != nil {
		return nil, err
	}
	counts := make([]Counts, classes)
	for i := 0; i < len(scores); i += classes {
		countRow(counts, scores[i:i+classes], labels[i:i+classes], at)
	}
	return counts, nil
}

func perClassThresholds(classes int, thresholds []float64) ([]float64, error) {
	for _, t := range thresholds {
		if math.IsNaN(t) {
			return nil, fmt.Errorf("metric: a threshold is NaN")
		}
	}
	switch len(thresholds) {
	case classes:
		return thresholds, nil
	case 1:
		all := make([]float64, classes)
		for c := range all {
			all[c] = thresholds[0]
		}
		return all, nil
	}
	return nil, fmt.Errorf("metric: %d thresholds for %d classes: give one, or one for each", len(thresholds), classes)
}

// countRow adds one image and returns its wrong decisions.
func countRow[S Score](counts []Counts, scores []S, labels []int8, at []float64) (wrong int) {
	for c, s := range scores {
		n := &counts[c]
		switch predicted, positive := s > S(at[c]), labels[c] == 1; {
		case predicted && positive:
			n.TP++
		case predicted:
			n.FP++
			wrong++
		case positive:
			n.FN++
			wrong++
		default:
			n.TN++
		}
	}
	return wrong
}
