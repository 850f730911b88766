package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gospml/gospml/internal/chart"
)

// Chart draws the table as SVG: test mAP (validation mAP where there is none), the highest row first, around the first
// method of the table. The bounds are those of the difference to it, the 95 % interval of the paired bootstrap; only
// rows whose interval excludes 0 have a colour.
func (t *Table) Chart() string {
	title, reference := "Test mAP", math.NaN()
	if t.noTest() {
		title = "Validation mAP"
	}
	var rows []chart.Interval
	for i, r := range t.Rows {
		x := chart.Interval{Name: r.Name, Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
		if x.Note, x.Says = "left out", r.LeftOut; r.LeftOut == "" {
			if x.Value, x.Note = r.BestMean, ""; r.NoTest {
				x.Value = r.ValMean
			}
			if i == 0 {
				reference = x.Value
			}
			if d := r.Difference; d != nil {
				first := x.Value - d.Difference.Value
				x.Low, x.High = first+d.Difference.Low, first+d.Difference.High
				x.Apart = d.Difference.Low > 0 || d.Difference.High < 0
			}
		}
		rows = append(rows, x)
	}
	slices.SortStableFunc(rows, func(a, b chart.Interval) int { return cmp.Compare(b.Value, a.Value) })
	unit := fmt.Sprintf("%%; intervals are of the difference to %s", t.Rows[0].Name)
	return chart.Intervals(title, unit, reference, rows)
}
