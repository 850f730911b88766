package audit

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/data"
)

// Applied says what decisions changed.
type Applied struct {
	Accepted  int      `json:"accepted"`  // labels that became positive
	Refused   int      `json:"refused"`   // labels that became known negatives (of full labels: stay 0)
	Same      int      `json:"same"`      // decisions that the labels held already
	Removed   int      `json:"removed"`   // positives that a reviewer took away
	Undecided int      `json:"undecided"` // candidates without a decision
	Against   []string `json:"against,omitempty"`
}

// Apply makes the data set that the decisions give: it shares everything with ds but the labels that were audited. Of observed labels an accepted one becomes 1 and a
// refused one -1, a known negative; of full labels 1 and 0. A pair that ds lacks, and two different decisions on one pair, are errors: nothing is lost silently.
// Decisions against full labels that ds knows are applied to the observed ones and listed in Against.
func Apply(ds *data.Dataset, of string, all ...*Decisions) (*data.Dataset, *Applied, error) {
	matrix, _, err := labels(ds, of)
	if err != nil {
		return nil, nil, err
	}
	rows := make(map[string]int, ds.N())
	for i, n := range ds.Images {
		rows[n] = i
	}
	matrix = slices.Clone(matrix)
	out := *ds
	if of == Full {
		out.Labels = matrix
		out.Observed = slices.Clone(ds.Observed)
	} else {
		out.Observed = matrix
	}
	a := &Applied{}
	made := map[[2]int]Decision{}
	for _, d := range all {
		a.Undecided += d.Undecided
		for _, x := range d.All {
			row, ok := rows[x.Image]
			column := slices.Index(ds.Classes, x.Label)
			if !ok || column < 0 {
				return nil, nil, fmt.Errorf("%w: %s: %s has no photo %q or no class %q", ErrDecisions, x.From, ds.Name, x.Image, x.Label)
			}
			at := [2]int{row, column}
			if before, ok := made[at]; ok {
				if before.Accept != x.Accept {
					return nil, nil, fmt.Errorf("%w: %s and %s decide differently on %s of %s", ErrDecisions, before.From, x.From, x.Label, x.Image)
				}
				continue
			}
			made[at] = x
			i := row*ds.C() + column
			was, is := matrix[i], int8(1)
			if !x.Accept {
				if is = -1; of == Full {
					is = 0
				}
			}
			switch {
			case x.Accept && was != 1:
				a.Accepted++
			case !x.Accept && was == 1:
				a.Removed++
			case !x.Accept && (was == 0 || of == Full):
				a.Refused++
			default:
				a.Same++
			}
			matrix[i] = is
			switch {
			case of == Observed && ds.Labels != nil && ds.FullyLabelled([]int{row}) && (ds.Labels[i] == 1) != x.Accept:
				a.Against = append(a.Against, fmt.Sprintf("%s of %s", x.Label, x.Image))
			case of == Full && out.Observed != nil && out.Observed[i] != 0 && (out.Observed[i] == 1) != x.Accept: // what was seen of it is no longer true
				out.Observed[i] = 0
			}
		}
	}
	return &out, a, nil
}
