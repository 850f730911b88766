package stat

import (
	"fmt"
	"io"
	"slices"

	"github.com/gospml/gospml/internal/chart"
)

const maxShown = 120 // classes in the picture, the most frequent ones

// SVG draws the counts: positives of each class with those that training sees, labels a row, and how often classes
// occur together. One file without anything outside it.
func SVG(w io.Writer, s *Labels) error {
	order := make([]int, len(s.Classes))
	for i := range order {
		order[i] = i
	}
	count := func(c int) int { return max(s.Classes[c].Positives.Sum(), s.Classes[c].Observed.Sum()) }
	slices.SortStableFunc(order, func(x, y int) int { return count(y) - count(x) })
	order = order[:min(len(order), maxShown)]
	var rows []chart.Bar
	for _, c := range order {
		k := s.Classes[c]
		rows = append(rows, chart.Bar{Name: k.Name, Values: []float64{float64(count(c)), float64(k.Observed[0])}})
	}
	title := fmt.Sprintf("%s: images by class (%d of %d classes)", s.Name, len(order), len(s.Classes))
	pictures := []string{chart.Bars(title, []string{"positive", "train positives that training sees"}, 0, rows)}
	if s.Full.Sum() > 0 {
		pictures = append(pictures, histogram(s), coOccurrence(s, order))
	}
	title = fmt.Sprintf("%s: %d images (%d train, %d val, %d test), %d classes",
		s.Name, s.Rows.Sum(), s.Rows[0], s.Rows[1], s.Rows[2], len(s.Classes))
	_, err := w.Write(chart.Standalone(title, pictures...))
	return err
}

func histogram(s *Labels) string {
	var rows []chart.Bar
	for k, n := range s.Histogram {
		if n == 0 && len(s.Histogram) > 40 {
			continue
		}
		rows = append(rows, chart.Bar{Name: fmt.Sprintf("%d labels", k), Values: []float64{float64(n)}})
	}
	return chart.Bars(fmt.Sprintf("images by number of labels, mean %.2f", s.Cardinality), []string{"images"}, 0, rows)
}

func coOccurrence(s *Labels, order []int) string {
	at := map[int]int{} // of a class in the table
	for k, c := range s.Together {
		at[c] = k
	}
	var known []int
	var names []string
	for _, c := range order {
		if _, ok := at[c]; ok {
			known, names = append(known, c), append(names, s.Classes[c].Name)
		}
	}
	share := func(row, column int) float64 {
		x, y := at[known[row]], at[known[column]]
		if n := s.CoOccurrence[x][x]; n > 0 {
			return float64(s.CoOccurrence[x][y]) / float64(n)
		}
		return 0
	}
	note := func(row, column int) string {
		return fmt.Sprintf("%s with %s: %.0f %%", names[row], names[column], 100*share(row, column))
	}
	return chart.Matrix("share of the row's images that have the column's class too", names, share, note)
}
