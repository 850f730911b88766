package metric

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/gospml/gospml/data/random"
)

// Interval is a value with the percentile interval of its bootstrap replicates.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Resampling says how images are drawn again.
type Resampling struct {
	Replicates int     // at most 1,000,000; 0 = 1000
	Level      float64 // of the interval; 0 = 0.95
	// Seed starts numpy's RandomState; replicate r draws randint(0, N, N), one after the other.
	Seed uint32
}

func (r Resampling) defaults() (Resampling, error) {
	if r.Replicates == 0 {
		r.Replicates = 1000
	}
	if r.Level == 0 {
		r.Level = 0.95
	}
	if r.Replicates < 1 || r.Replicates > 1_000_000 || !(r.Level > 0 && r.Level < 1) {
		return r, fmt.Errorf("metric: %d replicates (1 to 1,000,000) at level %v (between 0 and 1)", r.Replicates, r.Level)
	}
	return r, nil
}

// BootstrapMAP returns mAP (form [Step], percent) and the average precision of each class (0 to 1), each with its
// interval over images drawn with replacement. It uses all processors; the result depends on the seed only.
func BootstrapMAP[S Score](scores []S, labels []int8, classes int, r Resampling) (mAP Interval, perClass []Interval, err error) {
	r, err = r.defaults()
	if err != nil {
		return mAP, nil, err
	}
	sorted, err := sortColumns(scores, labels, classes)
	if err != nil {
		return mAP, nil, err
	}
	reps := replicates(r, []columns{sorted})
	values := make([]float64, r.Replicates)
	perClass = make([]Interval, classes)
	whole := sorted.ap(ones(sorted.n), nil)
	for c := range classes {
		for i := range values {
			values[i] = reps[0][i*classes+c]
		}
		perClass[c] = interval(whole[c], values, r.Level)
	}
	for i := range values {
		values[i] = 100 * Mean(reps[0][i*classes:(i+1)*classes])
	}
	return interval(100*Mean(whole), values, r.Level), perClass, nil
}

// Comparison is the difference of two models on the same images.
type Comparison struct {
	A          float64  `json:"a"` // mAP in percent
	B          float64  `json:"b"`
	Difference Interval `json:"difference"` // B − A, with its interval over common resamples
	// P is the two-sided bootstrap p-value of no difference: (1 + 2·min(#Δ≤0, #Δ≥0)) / (1 + replicates), at most 1.
	P float64 `json:"p"`
}

// CompareMAP compares the mAP of two models' scores for the same images: both are scored on the same resamples.
func CompareMAP[S Score](a, b []S, labels []int8, classes int, r Resampling) (Comparison, error) {
	r, err := r.defaults()
	if err != nil {
		return Comparison{}, err
	}
	if len(a) != len(b) {
		return Comparison{}, fmt.Errorf("metric: %d scores of one model and %d of the other", len(a), len(b))
	}
	first, err := sortColumns(a, labels, classes)
	if err != nil {
		return Comparison{}, err
	}
	second, err := sortColumns(b, labels, classes)
	if err != nil {
		return Comparison{}, err
	}
	reps := replicates(r, []columns{first, second})
	out := Comparison{A: 100 * Mean(first.ap(ones(first.n), nil)), B: 100 * Mean(second.ap(ones(first.n), nil))}
	deltas := make([]float64, r.Replicates)
	down, up := 0, 0
	for i := range deltas {
		deltas[i] = 100 * (Mean(reps[1][i*classes:(i+1)*classes]) - Mean(reps[0][i*classes:(i+1)*classes]))
		if deltas[i] <= 0 {
			down++
		}
		if deltas[i] >= 0 {
			up++
		}
	}
	out.Difference = interval(out.B-out.A, deltas, r.Level)
	out.P = min(1, float64(1+2*min(down, up))/float64(1+r.Replicates))
	return out, nil
}

// columns hold, for each class, the rows from the best score down; the lowest bit of a row is its label and the one
// above marks the last of its group.
type columns struct {
	n     int
	order [][]uint32
}

func sortColumns[S Score](scores []S, labels []int8, classes int) (columns, error) {
	if _, err := checkMatrix(scores, labels, classes); err != nil {
		return columns{}, err
	}
	n := len(scores) / classes
	if n == 0 {
		return columns{}, errors.New("metric: a bootstrap of no images")
	}
	if n >= 1<<30 {
		return columns{}, fmt.Errorf("metric: a bootstrap of %d images", n)
	}
	out := columns{n, make([][]uint32, classes)}
	for c := range classes {
		at := func(row uint32) S { return scores[int(row)*classes+c] }
		order := make([]uint32, n)
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortFunc(order, func(x, y uint32) int { return cmp.Compare(at(y), at(x)) })
		last := at(order[n-1]) - 1
		for i := n - 1; i >= 0; i-- {
			row := order[i]
			order[i] = row << 2
			if s := at(row); s != last || i == n-1 {
				order[i] |= 2
				last = s
			}
			if labels[int(row)*classes+c] == 1 {
				order[i] |= 1
			}
		}
		out.order[c] = order
	}
	return out, nil
}

// ap returns the average precision of each class where row i counts weights[i] times.
func (c columns) ap(weights []uint32, out []float64) []float64 {
	for _, order := range c.order {
		var tp, seen, hits uint64
		sum := 0.0
		for _, o := range order {
			w := uint64(weights[o>>2])
			seen += w
			hits += w * uint64(o&1)
			if o&2 != 0 && hits > 0 {
				tp += hits
				sum += float64(hits) * (float64(tp) / float64(seen))
				hits = 0
			}
		}
		out = append(out, ratio(sum, float64(tp)))
	}
	return out
}

func ones(n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// replicates returns [replicates, C] average precisions of each model.
func replicates(r Resampling, models []columns) [][]float64 {
	classes, n := len(models[0].order), models[0].n
	out := make([][]float64, len(models))
	for m := range out {
		out[m] = make([]float64, r.Replicates*classes)
	}
	type job struct {
		at      int
		weights []uint32
	}
	jobs, spare := make(chan job), make(chan []uint32, 2*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for j := range jobs {
				for m, c := range models {
					c.ap(j.weights, out[m][j.at*classes:j.at*classes])
				}
				select {
				case spare <- j.weights:
				default:
				}
			}
		})
	}
	g := random.New(r.Seed)
	for i := range r.Replicates {
		var w []uint32
		select {
		case w = <-spare:
			clear(w)
		default:
			w = make([]uint32, n)
		}
		for range n {
			w[g.Interval(uint64(n-1))]++
		}
		jobs <- job{i, w}
	}
	close(jobs)
	all.Wait()
	return out
}

// interval is numpy's quantile (linear interpolation) at both ends of the level.
func interval(value float64, replicates []float64, level float64) Interval {
	s := slices.Clone(replicates)
	slices.Sort(s)
	at := func(q float64) float64 {
		x := q * float64(len(s)-1)
		i := int(math.Floor(x))
		if i+1 >= len(s) {
			return s[len(s)-1]
		}
		return s[i] + (x-float64(i))*(s[i+1]-s[i])
	}
	return Interval{value, at((1 - level) / 2), at((1 + level) / 2)}
}
