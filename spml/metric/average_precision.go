package metric

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Variant names a definition of average precision.
type Variant string

const (
	// Step is scikit-learn's step function: scores are grouped by equality, after each group g (in descending order)
	// P_g = TP / seen and R_g = TP / positives, AP = Σ_g (R_g - R_{g-1})·P_g. The order inside a tie has no influence.
	// Cole, EM, LL, GR, VLPL, LAC and AEVLP's training use it. Source: scikit-learn, average_precision_score.
	Step Variant = "step"
	// Rank is the form of the ASL family (DualCoOp, SCPNet, ML-Decoder, AEVLP's separate script): Σ over positives of (TP
	// at its rank / rank) / (positives + 1e-8), with the later row first among equal scores. Source: Alibaba-MIIL/ASL @
	// 8c9e0bd, src/helper_functions/helper_functions.py.
	Rank Variant = "rank"
	// OpenImages is Step over the entries of a class that are not -1, as the code of LL, GR and AEVLP scores OpenImages,
	// whose annotators saw a few classes of each image. A class without a seen entry has average precision NaN and stays
	// out of the mean.
	OpenImages Variant = "openimages"
	// VOC2007 is the eleven-point form of Pascal VOC up to 2009: the mean over recalls 0, 0.1, …, 1 of the highest
	// precision at that recall or above. Equal scores are one group.
	VOC2007 Variant = "voc2007"
)

// Variants are all forms of average precision.
var Variants = []Variant{Step, Rank, OpenImages, VOC2007}

// ParseVariant returns the variant of that name.
func ParseVariant(name string) (Variant, error) {
	if v := Variant(name); slices.Contains(Variants, v) {
		return v, nil
	}
	return "", fmt.Errorf("metric: unknown form of average precision %q: step, rank, openimages or voc2007", name)
}

// Score is a score as it was stored. Equality of two scores means equality of the stored values, so float64 scores are
// not rounded.
type Score interface{ float32 | float64 }

// ScoreError says that a score is no finite number.
type ScoreError struct {
	Row, Class int
	Score      float64
}

func (e *ScoreError) Error() string {
	return fmt.Sprintf("metric: the score of row %d, class %d is %v: scores must be finite", e.Row, e.Class, e.Score)
}

// checkMatrix compares the sizes of scores and labels and looks for scores that are no numbers. It also says whether
// one is negative.
func checkMatrix[S Score](scores []S, labels []int8, classes int) (negative bool, err error) {
	if classes < 1 || len(scores)%classes != 0 {
		return false, fmt.Errorf("metric: %d scores do not fill rows of %d classes", len(scores), classes)
	}
	if len(scores) != len(labels) {
		return false, fmt.Errorf("metric: %d scores but %d labels", len(scores), len(labels))
	}
	for i, s := range scores {
		if s-s != 0 {
			return false, &ScoreError{Row: i / classes, Class: i % classes, Score: float64(s)}
		}
		negative = negative || s < 0
	}
	return negative, nil
}

// MAP returns the mean over classes of the average precision (form [Step]) in percent.
func MAP[S Score](scores []S, labels []int8, classes int) (float64, error) {
	ap, err := AveragePrecision(scores, labels, classes, Step)
	if err != nil {
		return 0, err
	}
	return 100 * Mean(ap), nil
}

// Mean returns the arithmetic mean of values without those that are NaN, 0 of none.
func Mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / max(float64(n), 1)
}

// AveragePrecision returns the average precision of each class, in [0, 1].
//
// scores and labels hold the same number of values, whole rows of classes. It works on one goroutine. With float32
// scores most of the time goes into a radix sort of each class, and the memory is 4·N·(min(C, 128) + 1) bytes, twice
// that where a score is negative; with float64 scores it is 24·N bytes.
func AveragePrecision[S Score](scores []S, labels []int8, classes int, v Variant) ([]float64, error) {
	negative, err := checkMatrix(scores, labels, classes)
	if err != nil {
		return nil, err
	}
	if _, err := ParseVariant(string(v)); err != nil {
		return nil, err
	}
	ap := make([]float64, classes)
	single, ok := any(scores).([]float32)
	switch {
	case v == OpenImages:
		for c := range ap {
			s, y := seen(scores, labels, classes, c)
			ap[c] = math.NaN()
			if len(s) > 0 {
				one, err := AveragePrecision(s, y, 1, Step)
				if err != nil {
					return nil, err
				}
				ap[c] = one[0]
			}
		}
	case !ok:
		doubles := any(scores).([]float64)
		for c := range ap {
			ap[c] = apOf(v, sortDoubles(doubles[c:], labels[c:], classes, len(scores)/classes))
		}
	case negative:
		perClass[uint64](ap, single, labels, v)
	default:
		perClass[uint32](ap, single, labels, v)
	}
	return ap, nil
}

// seen copies the entries of a class whose label is not -1.
func seen[S Score](scores []S, labels []int8, classes, c int) (s []S, y []int8) {
	for i := c; i < len(scores); i += classes {
		if labels[i] != -1 {
			s, y = append(s, scores[i]), append(y, labels[i])
		}
	}
	return s, y
}

// A key is a score as an ordered integer, shifted left by one, with the label in the lowest bit. Without negative
// scores 32 bits hold it.
type key interface{ uint32 | uint64 }

// lanes is the number of classes that are copied out of the row-major matrix in one walk over it.
const lanes = 128

// perClass fills ap, one value a class.
func perClass[K key](ap []float64, scores []float32, labels []int8, v Variant) {
	classes := len(ap)
	n := len(scores) / classes
	if n == 0 {
		return
	}
	// Columns an odd number of cache lines apart do not fall onto each other in the cache.
	stride := ((n+15)/16 | 1) * 16
	keys, spare := make([]K, min(lanes, classes)*stride), make([]K, n)
	for first := 0; first < classes; first += lanes {
		width := min(lanes, classes-first)
		transpose(keys, stride, scores[first:], labels[first:], classes, width)
		for l := range width {
			ap[first+l] = apOf(v, sortKeys(keys[l*stride:][:n], spare))
		}
	}
}

// transpose writes the keys of width classes, one class after the other with stride places each. scores and labels
// start at the first of these classes in row 0.
func transpose[K key](keys []K, stride int, scores []float32, labels []int8, classes, width int) {
	sign := uint32(0)
	if uint64(^K(0)) > math.MaxUint32 { // negative scores among them
		sign = 0x80000000
	}
	for row := 0; row*classes < len(scores); row++ {
		at := row * classes
		s, y := scores[at:at+width], labels[at:at+width]
		at = row
		for l, score := range s {
			bits := math.Float32bits(score)
			if bits == 0x80000000 {
				bits = 0 // -0 equals 0
			}
			// Integers in the order of the floats: all bits of a negative number are flipped, only the sign of a positive one.
			bits ^= uint32(int32(bits)>>31) | sign
			k := K(bits) << 1
			if y[l] == 1 {
				k |= 1
			}
			keys[at] = k
			at += stride
		}
	}
}

const digit = 11 // bits a pass: three passes cover the 33 bits of a key

// sortKeys sorts keys by score, ascending and stable (equal scores stay in row order), and returns the sorted keys:
// keys itself or spare, whose contents are lost.
func sortKeys[K key](keys, spare []K) []K {
	var count [3][1 << digit]uint32
	const mask = 1<<digit - 1
	for _, k := range keys {
		count[0][k&(mask-1)]++ // the label takes no part in the order
		count[1][k>>digit&mask]++
		count[2][uint64(k)>>(2*digit)&mask]++
	}
	from, to := keys, spare[:len(keys)]
	for pass := range count {
		c := &count[pass]
		shift, m := uint(pass*digit), K(mask)
		if pass == 0 {
			m = mask - 1
		}
		if int(c[from[0]>>shift&m]) == len(from) {
			continue // all share this digit
		}
		sum := uint32(0)
		for i, k := range c {
			c[i] = sum
			sum += k
		}
		for _, k := range from {
			d := k >> shift & m & mask
			to[c[d]] = k
			c[d]++
		}
		from, to = to, from
	}
	return from
}

// sortDoubles returns the keys of n scores that are classes apart: their ranks (equal scores have one rank), ascending,
// equal ones in row order.
func sortDoubles(scores []float64, labels []int8, classes, n int) []uint64 {
	type entry struct {
		score float64
		label uint64
	}
	entries, keys := make([]entry, n), make([]uint64, n)
	for i := range entries {
		entries[i].score = scores[i*classes]
		if labels[i*classes] == 1 {
			entries[i].label = 1
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.score, b.score) })
	rank := uint64(0)
	for i, e := range entries {
		if i > 0 && e.score != entries[i-1].score {
			rank++
		}
		keys[i] = rank<<1 | e.label
	}
	return keys
}

// apOf returns the average precision of ascending keys.
func apOf[K key](v Variant, sorted []K) float64 {
	switch v {
	case Rank:
		return rankAP(sorted)
	case VOC2007:
		return voc2007(sorted)
	}
	return stepAP(sorted)
}

// stepAP returns the average precision, form Step, of ascending keys.
func stepAP[K key](sorted []K) float64 {
	var tp, sum float64
	hits := K(0) // of the group so far
	for i := len(sorted) - 1; i >= 0; i-- {
		hits += sorted[i] & 1
		if hits > 0 && (i == 0 || sorted[i-1]>>1 != sorted[i]>>1) {
			tp += float64(hits)
			sum += float64(hits) * (tp / float64(len(sorted)-i))
			hits = 0
		}
	}
	if tp == 0 {
		return 0
	}
	return sum / tp
}

// rankAP returns the average precision, form Rank, of ascending keys.
func rankAP[K key](sorted []K) float64 {
	var tp, sum float64
	for i := len(sorted) - 1; i >= 0; i-- {
		if sorted[i]&1 == 1 {
			tp++
			sum += tp / float64(len(sorted)-i)
		}
	}
	return sum / (tp + 1e-8)
}

// voc2007 returns the average precision, form VOC2007, of ascending keys.
func voc2007[K key](sorted []K) float64 {
	positives := K(0)
	for _, k := range sorted {
		positives += k & 1
	}
	if positives == 0 {
		return 0
	}
	// From the lowest score upwards recall falls, so the highest precision so far is that of this recall or above.
	sum, best, point, tp := 0.0, 0.0, 10, float64(positives)
	for i := range sorted {
		if i == 0 || sorted[i]>>1 != sorted[i-1]>>1 { // the whole of this group and everything above it
			for point >= 0 && 10*tp < float64(point)*float64(positives) {
				sum += best
				point--
			}
			best = max(best, tp/float64(len(sorted)-i))
		}
		tp -= float64(sorted[i] & 1)
	}
	return (sum + float64(point+1)*best) / 11
}
