package metric

import (
	"fmt"
	"math"
)

// Variant names a definition of average precision.
type Variant string

const (
	// Step is scikit-learn's step function: scores are grouped by equality, after each group g (in descending order)
	// P_g = TP / seen and R_g = TP / positives, AP = Σ_g (R_g - R_{g-1})·P_g. The order inside a tie has no influence.
	// Cole, EM, LL, GR, VLPL, LAC and AEVLP's training use it. Source: models.md 10.1.
	Step Variant = "step"
	// Rank is the form of the ASL family (DualCoOp, SCPNet, ML-Decoder, AEVLP's separate script): Σ over positives of (TP at its
	// rank / rank) / (positives + 1e-8), with the later row first among equal scores. Source: models.md 10.1.
	Rank Variant = "rank"
)

// ParseVariant returns the variant of that name.
func ParseVariant(name string) (Variant, error) {
	switch v := Variant(name); v {
	case Step, Rank:
		return v, nil
	}
	return "", fmt.Errorf("metric: unknown form of average precision %q: step or rank", name)
}

// ScoreError says that a score cannot be ranked.
type ScoreError struct {
	Row, Class int
	Score      float32
}

func (e *ScoreError) Error() string {
	return fmt.Sprintf("metric: the score of row %d, class %d is %v: average precision needs finite scores", e.Row, e.Class, e.Score)
}

// MAP returns the mean over classes of the average precision (form [Step]) in percent.
func MAP(scores []float32, labels []int8, classes int) (float64, error) {
	ap, err := AveragePrecision(scores, labels, classes, Step)
	if err != nil {
		return 0, err
	}
	return 100 * Mean(ap), nil
}

// Mean returns the arithmetic mean of values, 0 of none.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// AveragePrecision returns the average precision of each class, in [0, 1].
//
// scores and labels hold the same number of values, whole rows of classes. It works on one goroutine; most of the time goes into a radix sort of
// each class, and the memory is 4·N·(min(C, 128) + 1) bytes, twice that where a score is negative.
func AveragePrecision(scores []float32, labels []int8, classes int, v Variant) ([]float64, error) {
	if classes < 1 || len(scores)%classes != 0 {
		return nil, fmt.Errorf("metric: %d scores do not fill rows of %d classes", len(scores), classes)
	}
	if len(scores) != len(labels) {
		return nil, fmt.Errorf("metric: %d scores but %d labels", len(scores), len(labels))
	}
	if _, err := ParseVariant(string(v)); err != nil {
		return nil, err
	}
	negative := false
	for i, s := range scores {
		if math.Float32bits(s)&0x7f800000 == 0x7f800000 {
			return nil, &ScoreError{Row: i / classes, Class: i % classes, Score: s}
		}
		negative = negative || s < 0
	}
	ap := make([]float64, classes)
	if negative {
		perClass[uint64](ap, scores, labels, v)
	} else {
		perClass[uint32](ap, scores, labels, v)
	}
	return ap, nil
}

// A key is a score as an ordered integer, shifted left by one, with the label in the lowest bit. Without negative scores 32 bits hold it.
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
			sorted := sortKeys(keys[l*stride:][:n], spare)
			if v == Rank {
				ap[first+l] = rankAP(sorted)
			} else {
				ap[first+l] = stepAP(sorted)
			}
		}
	}
}

// transpose writes the keys of width classes, one class after the other with stride places each. scores and labels start at the first of
// these classes in row 0.
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

// sortKeys sorts keys by score, ascending and stable (equal scores stay in row order), and returns the sorted keys: keys itself or spare,
// whose contents are lost.
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
