package metric

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotProbability: a calibration metric got a score outside [0, 1]. [Sigmoid] makes probabilities of logits.
var ErrNotProbability = errors.New("metric: calibration needs probabilities")

// Bin is one interval of predicted probability.
type Bin struct {
	Count      int     `json:"count"`
	Confidence float64 `json:"confidence"` // mean probability
	Positives  float64 `json:"positives"`  // share of positives
}

// Calibration compares predicted probabilities with the frequency of positives, over all entries of the matrix.
type Calibration struct {
	// ECE is the expected calibration error: Σ over bins of (count/N)·|share of positives − mean probability|. Source: Naeini et al. 2015.
	ECE float64 `json:"ece"`
	// MCE is the largest of these differences.
	MCE float64 `json:"mce"`
	// ClassECE is the mean over classes of each class's own ECE.
	ClassECE float64 `json:"class_ece"`
	// Brier is the mean of (p − y)². scikit-learn: brier_score_loss, averaged over classes.
	Brier float64 `json:"brier"`
	// Bins have equal width on [0, 1]; each holds its upper edge, the first also 0.
	Bins []Bin `json:"bins"`
}

// Calibrations computes calibration with the given number of bins.
func Calibrations[S Score](probabilities []S, labels []int8, classes, bins int) (Calibration, error) {
	if _, err := checkMatrix(probabilities, labels, classes); err != nil {
		return Calibration{}, err
	}
	b, err := newBinner(classes, bins)
	if err != nil {
		return Calibration{}, err
	}
	for i := 0; i < len(probabilities); i += classes {
		if c := binRow(b, probabilities[i:i+classes], labels[i:i+classes]); c >= 0 {
			return Calibration{}, fmt.Errorf("%w: row %d, class %d has %v", ErrNotProbability, i/classes, c, probabilities[i+c])
		}
	}
	return b.result(), nil
}

type binSum struct{ n, p, y float64 }

// binner sums per class and bin.
type binner struct {
	classes, bins int
	sums          []binSum // [C, bins]
	brier         float64
	n             int
}

func newBinner(classes, bins int) (*binner, error) {
	if bins < 1 {
		return nil, fmt.Errorf("metric: %d bins", bins)
	}
	return &binner{classes: classes, bins: bins, sums: make([]binSum, classes*bins)}, nil
}

// binRow adds one image and returns the first class whose score is no probability, -1 if there is none.
func binRow[S Score](b *binner, probabilities []S, labels []int8) int {
	for c, s := range probabilities {
		p := float64(s)
		if p < 0 || p > 1 {
			return c
		}
		y := 0.0
		if labels[c] == 1 {
			y = 1
		}
		s := &b.sums[c*b.bins+max(0, binOf(p, b.bins))]
		s.n++
		s.p += p
		s.y += y
		b.brier += (p - y) * (p - y)
		b.n++
	}
	return -1
}

// binOf is the bin whose interval (i/bins, (i+1)/bins] holds p; the edges are the float64 values of i/bins.
func binOf(p float64, bins int) int {
	i := min(int(p*float64(bins)), bins-1)
	if i > 0 && p <= float64(i)/float64(bins) {
		return i - 1
	}
	if i < bins-1 && p > float64(i+1)/float64(bins) {
		return i + 1
	}
	return i
}

func (b *binner) result() Calibration {
	out := Calibration{Bins: make([]Bin, b.bins), Brier: ratio(b.brier, float64(b.n))}
	pooled := make([]binSum, b.bins)
	for c := range b.classes {
		own := b.sums[c*b.bins:][:b.bins]
		e, _ := expectedError(own)
		out.ClassECE += e / float64(b.classes)
		for i, s := range own {
			pooled[i].n += s.n
			pooled[i].p += s.p
			pooled[i].y += s.y
		}
	}
	out.ECE, out.MCE = expectedError(pooled)
	for i, s := range pooled {
		out.Bins[i] = Bin{int(s.n), ratio(s.p, s.n), ratio(s.y, s.n)}
	}
	return out
}

func expectedError(bins []binSum) (mean, most float64) {
	n := 0.0
	for _, s := range bins {
		n += s.n
		if s.n > 0 {
			gap := math.Abs(s.y - s.p)
			mean += gap
			most = max(most, gap/s.n)
		}
	}
	return ratio(mean, n), most
}

// Sigmoid returns 1/(1+exp(-x)) of each logit.
func Sigmoid[S Score](logits []S) []S {
	out := make([]S, len(logits))
	for i, x := range logits {
		out[i] = S(sigmoid(float64(x)))
	}
	return out
}

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// Temperature returns the T > 0 that minimises the mean binary cross-entropy of logits/T over all entries (temperature scaling, Guo et al. 2017). It fails
// where no finite positive T does: logits that separate the labels perfectly want T → 0, logits that order them no better than the wrong way T → ∞.
func Temperature[S Score](logits []S, labels []int8) (float64, error) {
	if _, err := checkMatrix(logits, labels, 1); err != nil {
		return 0, err
	}
	separated := true
	for i, x := range logits {
		if labels[i] == 1 && x < 0 || labels[i] != 1 && x > 0 {
			separated = false
			break
		}
	}
	if separated {
		return 0, errors.New("metric: no temperature fits: the logits separate the labels perfectly")
	}
	// The loss is convex in b = 1/T: safeguarded Newton on its derivative.
	slope := func(b float64) (first, second float64) {
		for i, x := range logits {
			z := float64(x)
			p := sigmoid(b * z)
			if labels[i] == 1 {
				first -= z * (1 - p)
			} else {
				first += z * p
			}
			second += z * z * p * (1 - p)
		}
		return first, second
	}
	lo, hi := 0.0, 1.0
	if d, _ := slope(0); d >= 0 {
		return 0, errors.New("metric: no temperature fits: the logits do not order the labels better than chance")
	}
	for d, _ := slope(hi); d < 0; d, _ = slope(hi) {
		lo, hi = hi, 2*hi
	}
	b := (lo + hi) / 2
	for range 200 {
		d, dd := slope(b)
		if d > 0 {
			hi = b
		} else {
			lo = b
		}
		next := b - d/dd
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		if math.Abs(next-b) <= 1e-14*b {
			return 1 / next, nil
		}
		b = next
	}
	return 1 / b, nil
}

// Platt maps a score x to the probability 1/(1+exp(A·x+B)). A is negative where higher scores are more often positive.
type Platt struct{ A, B float64 }

// At returns the probability of a score.
func (p Platt) At(score float64) float64 { return sigmoid(-(p.A*score + p.B)) }

// FitPlatt fits [Platt] to one class by maximum likelihood with Platt's smoothed targets, (N₊+1)/(N₊+2) and 1/(N₋+2), so that it has a finite answer for
// any scores that are not all equal. Source: Platt 1999; the iteration of Lin, Lin and Weng 2007.
func FitPlatt[S Score](scores []S, labels []int8) (Platt, error) {
	if _, err := checkMatrix(scores, labels, 1); err != nil {
		return Platt{}, err
	}
	if len(scores) == 0 {
		return Platt{}, errors.New("metric: Platt scaling of no scores")
	}
	positives := 0.0
	for _, y := range labels {
		if y == 1 {
			positives++
		}
	}
	negatives := float64(len(labels)) - positives
	high, low := (positives+1)/(positives+2), 1/(negatives+2)
	target := func(i int) float64 {
		if labels[i] == 1 {
			return high
		}
		return low
	}
	// Centred and scaled scores keep the two unknowns apart.
	mean, scale := 0.0, 0.0
	for _, s := range scores {
		mean += float64(s) / float64(len(scores))
	}
	for _, s := range scores {
		scale = max(scale, math.Abs(float64(s)-mean))
	}
	if scale == 0 {
		scale = 1
	}
	loss := func(a, b float64) (l float64) {
		for i, s := range scores {
			f := a*(float64(s)-mean)/scale + b
			// t·log(1+e^f) + (1−t)·(log(1+e^f) − f)
			l += math.Max(f, 0) + math.Log1p(math.Exp(-math.Abs(f))) - (1-target(i))*f
		}
		return l
	}
	a, b := 0.0, math.Log((negatives+1)/(positives+1))
	value := loss(a, b)
	for range 100 {
		var ga, gb, haa, hab, hbb float64
		for i, s := range scores {
			x := (float64(s) - mean) / scale
			q := sigmoid(a*x + b) // probability of a negative
			d, w := target(i)-(1-q), q*(1-q)
			ga, gb = ga+d*x, gb+d
			haa, hab, hbb = haa+w*x*x, hab+w*x, hbb+w
		}
		haa, hbb = haa+1e-12, hbb+1e-12
		det := haa*hbb - hab*hab
		da, db := -(hbb*ga-hab*gb)/det, -(haa*gb-hab*ga)/det
		step := 1.0
		for ; step > 1e-10; step /= 2 {
			if v := loss(a+step*da, b+step*db); v <= value+1e-4*step*(ga*da+gb*db) || v == value {
				a, b, value = a+step*da, b+step*db, v
				break
			}
		}
		if step <= 1e-10 || math.Abs(da)+math.Abs(db) < 1e-13*(1+math.Abs(a)+math.Abs(b)) {
			break
		}
	}
	return Platt{A: a / scale, B: b - a*mean/scale}, nil
}
