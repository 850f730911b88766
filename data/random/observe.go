package random

import "fmt"

// Labels draws the observed labels of Cole et al.'s script for any numbers: of each row of full labels (0 or 1) the first positives of the shuffled positives are kept as
// 1, the first negatives of the shuffled negatives as -1, everything else is 0. -1 keeps all. Labels(…, 1, 0, seed) is [SinglePositive]; the draws are
// the same for all numbers. Source: generate_observed_labels.py, observe_uniform.
func Labels(labels []int8, classes, positives, negatives int, seed uint32) ([]int8, error) {
	if classes < 1 || len(labels)%classes != 0 {
		return nil, fmt.Errorf("random: Labels: %d labels do not fill rows of %d classes", len(labels), classes)
	}
	if positives < -1 || negatives < -1 {
		return nil, fmt.Errorf("random: Labels: %d positives and %d negatives: want -1 for all, or a number", positives, negatives)
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
				return nil, fmt.Errorf("random: Labels: row %d, class %d: label %d, must be 0 or 1", at/classes, c, v)
			}
		}
		for _, k := range []struct {
			of    []int
			keep  int
			value int8
		}{{pos, positives, 1}, {neg, negatives, -1}} {
			r.ShuffleInts(k.of)
			n := len(k.of)
			if k.keep >= 0 {
				n = min(n, k.keep)
			}
			for _, c := range k.of[:n] {
				observed[at+c] = k.value
			}
		}
	}
	return observed, nil
}

// ByFrequency keeps one positive of each row, drawn with a probability proportional to its class's number of positives in all rows: annotators name what is common.
// One uniform number a row with positives, in row order; the columns are walked in order until their share is reached.
func ByFrequency(labels []int8, classes int, seed uint32) ([]int8, error) {
	if classes < 1 || len(labels)%classes != 0 {
		return nil, fmt.Errorf("random: ByFrequency: %d labels do not fill rows of %d classes", len(labels), classes)
	}
	count := make([]float64, classes)
	for i, v := range labels {
		if v != 0 && v != 1 {
			return nil, fmt.Errorf("random: ByFrequency: row %d, class %d: label %d, must be 0 or 1", i/classes, i%classes, v)
		}
		count[i%classes] += float64(v)
	}
	observed := make([]int8, len(labels))
	r := New(seed)
	for at := 0; at < len(labels); at += classes {
		sum, last := 0.0, -1
		for c, v := range labels[at : at+classes] {
			if v == 1 {
				sum, last = sum+count[c], c
			}
		}
		if last < 0 {
			continue
		}
		left := r.RandomSample() * sum
		for c, v := range labels[at : at+classes] {
			if v != 1 {
				continue
			}
			if left -= count[c]; left < 0 || c == last {
				observed[at+c] = 1
				break
			}
		}
	}
	return observed, nil
}

// Share keeps each label, positive or negative, with the given probability: partial labels at a known share. One uniform number a label, in row order.
func Share(labels []int8, share float64, seed uint32) ([]int8, error) {
	if !(share >= 0 && share <= 1) {
		return nil, fmt.Errorf("random: Share: %v must lie in [0, 1]", share)
	}
	observed := make([]int8, len(labels))
	r := New(seed)
	for i, v := range labels {
		if v != 0 && v != 1 {
			return nil, fmt.Errorf("random: Share: label %d is %d, must be 0 or 1", i, v)
		}
		if r.RandomSample() < share {
			observed[i] = 2*v - 1
		}
	}
	return observed, nil
}
