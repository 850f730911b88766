package audit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// Precision says how many of the first candidates are really missing labels, by the full labels.
type Precision struct {
	By      string    `json:"by"`      // "audit", or one source alone
	At      []int     `json:"at"`      // k
	Of      []float64 `json:"of"`      // share of the first k that are positive in the full labels
	Average float64   `json:"average"` // average precision over all pairs
	Chance  float64   `json:"chance"`  // share of positives among all pairs
	Missing int       `json:"missing"` // positives among them
}

// precision measures the order of the audit and of each source alone. Equal scores count at their mean, so that their order does not matter.
func precision(pairs []pair, sources []Source, positive func(pair) bool) []Precision {
	type one struct {
		v  float64
		is bool
	}
	measure := func(by string, value func(pair) float64) Precision {
		order := make([]one, len(pairs))
		for i, p := range pairs {
			order[i] = one{value(p), positive(p)}
			if order[i].v != order[i].v {
				order[i].v = -1 // the source cannot say
			}
		}
		slices.SortStableFunc(order, func(a, b one) int { return cmp.Compare(b.v, a.v) })
		hits := make([]float64, len(order)+1) // expected positives among the first i
		r := Precision{By: by}
		for from := 0; from < len(order); {
			to, n := from, 0.0
			for to < len(order) && order[to].v == order[from].v {
				if order[to].is {
					n++
				}
				to++
			}
			for i := from; i < to; i++ {
				hits[i+1] = hits[from] + n*float64(i+1-from)/float64(to-from)
			}
			r.Average += n * hits[to] / float64(to) // the step form: equal scores share one precision
			from = to
		}
		r.Missing = int(hits[len(order)] + 0.5)
		r.Chance = float64(r.Missing) / float64(len(order))
		if r.Missing > 0 {
			r.Average /= float64(r.Missing)
		}
		for _, k := range steps(len(order), r.Missing) {
			r.At, r.Of = append(r.At, k), append(r.Of, hits[k]/float64(k))
		}
		return r
	}
	out := []Precision{measure("audit", func(p pair) float64 { return p.score })}
	if len(sources) > 1 {
		for _, s := range sources {
			at := slices.Index(Sources, s)
			out = append(out, measure(string(s), func(p pair) float64 { return p.levels[at] }))
		}
	}
	return out
}

// steps are the k of a curve: 10, 20, 50, 100 …, and the number of missing labels.
func steps(n, missing int) []int {
	var out []int
	for d := 10; d <= n; d *= 10 {
		for _, m := range []int{1, 2, 5} {
			if k := d * m; k <= n {
				out = append(out, k)
			}
		}
	}
	if missing > 0 {
		out = append(out, missing)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// WritePrecision prints the measurement as a table: a row for each k, a column for the audit and each source alone, in percent.
func WritePrecision(w io.Writer, all []Precision) error {
	if len(all) == 0 {
		return nil
	}
	a := all[0]
	line := func(name string, value func(p Precision) float64) error {
		text := fmt.Sprintf("%-18s", name)
		for _, p := range all {
			text += fmt.Sprintf("%12.1f", 100*value(p))
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
	head := fmt.Sprintf("%-18s", "precision (%)")
	for _, p := range all {
		head += fmt.Sprintf("%12s", p.By)
	}
	if _, err := fmt.Fprintf(w, "%s\n", head); err != nil {
		return err
	}
	for i, k := range a.At {
		name := fmt.Sprintf("first %d", k)
		if k == a.Missing {
			name += " = all"
		}
		if err := line(name, func(p Precision) float64 { return p.Of[i] }); err != nil {
			return err
		}
	}
	if err := line("average precision", func(p Precision) float64 { return p.Average }); err != nil {
		return err
	}
	return line("chance", func(p Precision) float64 { return p.Chance })
}
