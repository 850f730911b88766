package data

import (
	"fmt"

	"github.com/gospml/gospml/data/random"
)

// Observation says how observed labels are drawn from full ones.
type Observation struct {
	Model     string  // uniform, frequency, share; "" is uniform
	Positives int     // uniform: positives that are kept of each row, -1 all; 0 is read as 1
	Negatives int     // uniform: negatives that are kept of each row, -1 all
	Share     float64 // share: probability with which a label is kept
	Seed      uint32
	AllRows   bool // one generator over all rows in order; else one over train and val, and a fresh one over test, as Cole et al. do
}

// Observations lists the models with a line about each.
var Observations = []struct{ Name, About string }{
	{"uniform", "some positives (and negatives) of each row, all equally likely: Cole et al."},
	{"frequency", "one positive of each row, likelier the more images have its class"},
	{"share", "every label, positive or negative, is kept with one probability"},
}

// Observe returns a data set that shares everything with d but whose observed labels are drawn anew from the full labels, which every row must have.
func (d *Dataset) Observe(o Observation) (*Dataset, error) {
	if d.Labels == nil || d.Full != nil {
		return nil, fmt.Errorf("data: %s has no full labels of every row to draw from", d.Name)
	}
	draw := func(labels []int8) ([]int8, error) {
		return nil, fmt.Errorf("data: %q is no observation model: uniform, frequency, share", o.Model)
	}
	var how string
	switch o.Model {
	case "", "uniform":
		if o.Positives == 0 {
			o.Positives = 1
		}
		how = fmt.Sprintf("%d positives and %d negatives of each row", o.Positives, o.Negatives)
		draw = func(l []int8) ([]int8, error) { return random.Labels(l, d.C(), o.Positives, o.Negatives, o.Seed) }
	case "frequency":
		how = "one positive of each row by class frequency"
		draw = func(l []int8) ([]int8, error) { return random.ByFrequency(l, d.C(), o.Seed) }
	case "share":
		how = fmt.Sprintf("each label with probability %v", o.Share)
		draw = func(l []int8) ([]int8, error) { return random.Share(l, o.Share, o.Seed) }
	}
	s := *d
	s.Observed = make([]int8, len(d.Labels))
	groups := [][]int{nil, nil}
	for i, p := range d.Split {
		g := 0
		if p == Test && !o.AllRows {
			g = 1
		}
		groups[g] = append(groups[g], i)
	}
	for _, rows := range groups {
		if len(rows) == 0 {
			continue
		}
		drawn, err := draw(d.Gather(d.Labels, rows))
		if err != nil {
			return nil, err
		}
		for i, r := range rows {
			copy(s.matrixRow(s.Observed, r), drawn[i*d.C():(i+1)*d.C()])
		}
	}
	over := "part by part"
	if o.AllRows {
		over = "over all rows"
	}
	s.Info.Observed = fmt.Sprintf("%s, drawn %s with seed %d", how, over, o.Seed)
	return &s, nil
}

// Resplit returns a data set that shares everything with d but whose parts are drawn anew: first test of all rows, then val of the rest, by the rule
// of Cole et al. ([random.Split]). A fraction of 0 leaves the part empty; keepTest keeps the test rows as they are.
func (d *Dataset) Resplit(val, test float64, seed uint32, keepTest bool) (*Dataset, error) {
	s := *d
	s.Split = make([]Split, d.N())
	var train []int
	for i := range s.Split {
		if keepTest && d.Split[i] == Test {
			s.Split[i] = Test
			continue
		}
		train = append(train, i)
	}
	for _, p := range []struct {
		part     Split
		fraction float64
	}{{Test, test}, {Val, val}} {
		if p.part == Test && keepTest {
			continue
		}
		keep, moved, err := random.Split(len(train), p.fraction, seed)
		if err != nil {
			return nil, err
		}
		for _, i := range moved {
			s.Split[train[i]] = p.part
		}
		for n, i := range keep {
			train[n] = train[i]
		}
		train = train[:len(keep)]
	}
	if len(train) == 0 {
		return nil, fmt.Errorf("data: %s: no row would be left for training", d.Name)
	}
	s.Info.Split = fmt.Sprintf("drawn with seed %d: test %v, then val %v of the rest", seed, test, val)
	if keepTest {
		s.Info.Split = fmt.Sprintf("drawn with seed %d: val %v of the rows that are not test", seed, val)
	}
	return &s, nil
}
