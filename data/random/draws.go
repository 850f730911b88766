package random

import (
	"fmt"
	"math"
	"slices"
)

// SplitSeed is the seed with which Cole et al. and everyone after them split the official training part.
const SplitSeed = 1200

// Split parts n rows into training and validation rows as Cole et al. do: round(fraction·n) rows (half to even) go to
// validation, both parts ascending. The published splits are Split(n, 0.2, SplitSeed). fraction outside [0, 1] is an
// error.
//
// Source: elijahcole/single-positive-multi-label @ 89152d5, datasets.py; the released code's later sub-sampling step
// keeps every row and is left out.
func Split(n int, fraction float64, seed uint32) (train, val []int, err error) {
	if !(fraction >= 0 && fraction <= 1) || n < 0 {
		return nil, nil, fmt.Errorf("random: Split of %d rows with validation fraction %v: the fraction must lie in [0, 1]", n, fraction)
	}
	nVal := int(math.RoundToEven(fraction * float64(n)))
	p := New(seed).Permutation(n)
	train, val = p[:n-nVal:n-nVal], p[n-nVal:]
	slices.Sort(train)
	slices.Sort(val)
	return train, val, nil
}

// SinglePositive draws the observed labels of Cole et al.: from each row of full labels (0 or 1, row-major, any
// multiple of classes values) one positive is kept as 1, everything else is 0 (unknown). A row without positives stays
// empty.
//
// One generator serves all rows in order. The negatives of a row are shuffled too although none is kept: that consumes
// numbers, and without it the later rows would get other labels than the published ones. Source:
// elijahcole/single-positive-multi-label @ 89152d5, preproc/generate_observed_labels.py.
func SinglePositive(labels []int8, classes int, seed uint32) ([]int8, error) {
	if classes < 1 || len(labels)%classes != 0 {
		return nil, fmt.Errorf("random: SinglePositive: %d labels do not fill rows of %d classes", len(labels), classes)
	}
	observed := make([]int8, len(labels))
	pos, neg := make([]int, 0, classes), make([]int, 0, classes)
	r := New(seed)
	for at := 0; at < len(labels); at += classes {
		pos, neg = pos[:0], neg[:0]
		for c, v := range labels[at : at+classes] {
			switch v {
			case 1:
				pos = append(pos, c)
			case 0:
				neg = append(neg, c)
			default:
				return nil, fmt.Errorf("random: SinglePositive: row %d, class %d: label %d, must be 0 or 1", at/classes, c, v)
			}
		}
		r.ShuffleInts(pos)
		r.ShuffleInts(neg)
		if len(pos) > 0 {
			observed[at+pos[0]] = 1
		}
	}
	return observed, nil
}

// Mix hashes numbers to one 64-bit value (splitmix64 over a running sum): a seed for each (seed, epoch, row …) without
// a stream between them.
func Mix(words ...uint64) uint64 {
	var h uint64
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// Coin is a fair coin for each (seed, epoch, row), the same on every machine and for any number of workers.
func Coin(seed uint64, epoch, row int) bool {
	return Mix(seed, uint64(epoch), uint64(row))>>63 == 1
}
