package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/caught"
)

// Source is one of the three witnesses.
type Source string

// The sources, in the order of reports.
const (
	Model      Source = "model"      // the trained model's probability
	Clip       Source = "clip"       // an image-text model's probability for the class among all classes
	Neighbours Source = "neighbours" // share of the nearest photos, in the model's features, that carry the label
)

// Sources lists them.
var Sources = []Source{Model, Clip, Neighbours}

// Which labels are looked at.
const (
	Observed = "observed" // those that training may see: what is unknown there
	Full     = "full"     // the full labels: what is 0 there
)

// Evidence is what each source says of the pairs of n rows and C classes.
type Evidence struct {
	Data   *data.Dataset
	Rows   []int                // [n], rows of the data set
	Values map[Source][]float32 // each [n, C]; a source that is absent is missing; NaN: this source cannot say
	Near   [][]int              // [n], the nearest rows of the data set, the nearest first; nil without neighbours
}

// Options of Rank.
type Options struct {
	Of      string             // [Observed] or [Full]; "": observed labels where the data set has them
	Weights map[Source]float64 // of each source; nil, or one that is absent: 1
	Top     int                // candidates that are kept; 0: all
}

// Share is what a source says of a candidate.
type Share struct {
	Source Source  `json:"source"`
	Value  float64 `json:"value"` // as the source gives it
	Level  float64 `json:"level"` // share of all candidates of which it says less: 0 to 1
	Part   float64 `json:"part"`  // what it adds to the score: the parts sum to the score
}

// Candidate is a label that is probably missing.
type Candidate struct {
	Rank       int      `json:"rank"` // from 1
	Row        int      `json:"row"`  // of the data set
	Column     int      `json:"-"`
	Image      string   `json:"image"`
	Label      string   `json:"label"`
	Score      float64  `json:"score"` // 0 to 1
	Shares     []Share  `json:"sources"`
	Neighbours []string `json:"neighbours,omitempty"` // nearest photos, the nearest first
	Carry      []bool   `json:"carry,omitempty"`      // whether each of them carries the label
	True       *bool    `json:"true,omitempty"`       // the full label, where it is known and the observed ones are looked at
}

// Table is the outcome of an audit.
type Table struct {
	Name        string      `json:"name"`
	Of          string      `json:"of"`
	Fingerprint string      `json:"fingerprint"` // of the data set
	Sources     []Source    `json:"sources"`
	Pairs       int         `json:"pairs"` // whose label is not known
	Candidates  []Candidate `json:"-"`
	// Precision is measured where the full labels of all rows are known, over all pairs: Table says how good the audit is,
	// not only its list.
	Precision []Precision `json:"precision,omitempty"`
}

// nearNamed is how many of the neighbours a candidate names.
const nearNamed = 5

// pair is a candidate before it has words.
type pair struct {
	at, column int // place among the rows, class
	score      float64
	levels     [3]float64 // by place in Sources; NaN: the source is absent
}

// Rank orders the pairs whose label is not known. Probabilities, softmaxes and votes have no common scale, so each
// source's values become levels, the share of pairs of which it says less (equal ones count half). What is left to 1 is
// the chance that a pair taken at random looks as likely, and the sources' chances are joined as Fisher joins the
// p-values of several tests, by the sum of their logarithms: the score is 1 less their weighted geometric mean, over
// the sources that say something. A pair on which the sources agree so comes before one that a single source is sure
// of.
//
// Source: R. A. Fisher, Statistical Methods for Research Workers, section 21.1.
func Rank(ctx context.Context, e *Evidence, o Options) (_ *Table, err error) {
	defer caught.Recover(&err)
	ds, c := e.Data, e.Data.C()
	if o.Of == "" {
		if o.Of = Full; ds.Observed != nil {
			o.Of = Observed
		}
	}
	matrix, known, err := labels(ds, o.Of)
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for i, r := range e.Rows {
		if !known(r) {
			continue
		}
		for k := range c {
			if matrix[r*c+k] == 0 {
				pairs = append(pairs, pair{at: i, column: k, levels: [3]float64{math.NaN(), math.NaN(), math.NaN()}})
			}
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("audit: %s has no label that is not known", ds.Name)
	}
	t := &Table{Name: ds.Name, Of: o.Of, Fingerprint: ds.Fingerprint(), Pairs: len(pairs)}
	weights := [3]float64{}
	for s, source := range Sources {
		v, ok := e.Values[source]
		if !ok {
			continue
		}
		if len(v) != len(e.Rows)*c {
			return nil, fmt.Errorf("audit: %s has %d values, want %d rows of %d classes", source, len(v), len(e.Rows), c)
		}
		weights[s] = 1
		if w, ok := o.Weights[source]; ok {
			weights[s] = w
		}
		if !(weights[s] >= 0) || math.IsInf(weights[s], 0) {
			return nil, fmt.Errorf("audit: the weight of %s is %v, want a number that is not negative", source, weights[s])
		}
		if weights[s] > 0 {
			t.Sources = append(t.Sources, source)
			level(pairs, s, func(p pair) float64 { return float64(v[p.at*c+p.column]) })
		}
	}
	if len(t.Sources) == 0 {
		return nil, errors.New("audit: no source has a weight")
	}
	for i := range pairs {
		pairs[i].score, _ = join(pairs[i].levels, weights)
	}
	if o.Of == Observed && ds.Labels != nil && ds.FullyLabelled(e.Rows) {
		t.Precision = precision(pairs, t.Sources, func(p pair) bool { return ds.Labels[e.Rows[p.at]*c+p.column] == 1 })
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.score, a.score) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Top > 0 {
		pairs = pairs[:min(o.Top, len(pairs))]
	}
	for i, p := range pairs {
		t.Candidates = append(t.Candidates, e.candidate(i+1, p, weights, matrix, o.Of))
	}
	return t, nil
}

// labels are the matrix that is looked at and whether it says something of a row.
func labels(ds *data.Dataset, of string) ([]int8, func(row int) bool, error) {
	all := func(int) bool { return true }
	switch {
	case of == Observed && ds.Observed != nil:
		return ds.Observed, all, nil
	case of == Full && ds.Labels != nil && ds.Full != nil:
		return ds.Labels, func(r int) bool { return ds.Full[r] }, nil
	case of == Full && ds.Labels != nil:
		return ds.Labels, all, nil
	case of == Observed || of == Full:
		return nil, nil, fmt.Errorf("audit: %s has no %s labels", ds.Name, of)
	}
	return nil, nil, fmt.Errorf("audit: labels %q: want %s or %s", of, Observed, Full)
}

// join gives the score of levels and what each source adds to it.
func join(levels, weights [3]float64) (score float64, parts [3]float64) {
	sum, all := 0.0, 0.0
	for s, l := range levels {
		if !math.IsNaN(l) {
			parts[s] = -weights[s] * math.Log1p(-l)
			all += parts[s]
			sum += weights[s]
		}
	}
	if all == 0 {
		return 0, [3]float64{}
	}
	score = -math.Expm1(-all / sum)
	for s := range parts {
		parts[s] *= score / all
	}
	return score, parts
}

// level turns a source's values into levels; equal values share the mean of their places.
func level(pairs []pair, s int, value func(pair) float64) {
	type at struct {
		v float64
		i int
	}
	var order []at
	for i, p := range pairs {
		if v := value(p); !math.IsNaN(v) {
			order = append(order, at{v, i})
		}
	}
	slices.SortFunc(order, func(a, b at) int { return cmp.Compare(a.v, b.v) })
	n := float64(len(order))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && order[to].v == order[from].v {
			to++
		}
		for _, x := range order[from:to] {
			pairs[x.i].levels[s] = float64(from+to) / 2 / n // below 1, and above 0
		}
		from = to
	}
}

// candidate puts a pair into words.
func (e *Evidence) candidate(rank int, p pair, weights [3]float64, matrix []int8, of string) Candidate {
	ds, c, row := e.Data, e.Data.C(), e.Rows[p.at]
	x := Candidate{Rank: rank, Row: row, Column: p.column, Image: ds.Images[row], Label: ds.Classes[p.column], Score: p.score}
	_, parts := join(p.levels, weights)
	for s, l := range p.levels {
		if !math.IsNaN(l) {
			source := Sources[s]
			x.Shares = append(x.Shares, Share{source, float64(e.Values[source][p.at*c+p.column]), l, parts[s]})
		}
	}
	if e.Near != nil {
		for _, r := range e.Near[p.at][:min(nearNamed, len(e.Near[p.at]))] {
			x.Neighbours = append(x.Neighbours, ds.Images[r])
			x.Carry = append(x.Carry, matrix[r*c+p.column] == 1)
		}
	}
	if of == Observed && ds.Labels != nil && ds.FullyLabelled([]int{row}) {
		full := ds.Labels[row*c+p.column] == 1
		x.True = &full
	}
	return x
}
