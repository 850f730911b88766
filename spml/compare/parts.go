package compare

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Part is a table under the one of the methods: how their settings were chosen, or numbers from elsewhere.
type Part struct {
	Title, Text string // Text is a sentence or two
	Head        []string
	Rows        [][]string // texts of others are as they are; who writes them into a format makes them fit
}

// Parts are the tables that stand under the one of the methods, on a screen and on a page alike.
func (t *Table) Parts() (parts []Part) {
	if t.Budget != nil {
		parts = append(parts, t.selections())
	}
	if len(t.Beside) > 0 {
		parts = append(parts, t.beside())
	}
	return parts
}

// selections says how the rows of a tuned table were chosen.
func (t *Table) selections() Part {
	b := t.Budget
	p := Part{
		Title: "Settings",
		Text: fmt.Sprintf("Settings were chosen by validation mAP alone, mean over seeds %s, which no row above has; test "+
			"stayed hidden until every choice was made and was scored once. Search: %d settings, %d runs, %v of training; "+
			"test: %d runs, %v.",
			join(b.Seeds, "%d"), b.Settings, b.Runs, seconds(b.Seconds), b.TestRuns, seconds(b.TestSeconds)),
		Head: []string{"method", "chosen", "val mAP", "of its own settings", "tried", "training", "grid"},
	}
	for _, r := range t.Rows {
		if x := r.Selection; x != nil {
			p.Rows = append(p.Rows, []string{r.Name, x.text(), spread(x.ValMean, x.ValSD, len(b.Seeds), " ± "),
				fmt.Sprintf("%.2f", x.OwnVal), strconv.Itoa(x.Tried), seconds(x.Seconds).String(), x.Source})
		}
	}
	return p
}

// beside lays numbers from elsewhere beside ours.
func (t *Table) beside() Part {
	p := Part{
		Title: "Numbers from elsewhere",
		Text:  "Numbers from elsewhere beside ours (percent where the metric is an mAP).",
		Head:  []string{"method", "metric", "ours", "elsewhere", "its interval", "difference", "source"},
	}
	for _, n := range t.Beside {
		p.Rows = append(p.Rows, []string{n.Method, n.Metric, n.ours(" ± "), fmt.Sprintf("%.2f", n.Mean), n.interval(),
			n.difference(), n.Source})
	}
	return p
}

func (t *Table) markdownParts(w io.Writer) error {
	for _, p := range t.Parts() {
		fmt.Fprintf(w, "\n%s\n\n| %s |\n|%s\n", p.Text, strings.Join(p.Head, " | "), strings.Repeat("---|", len(p.Head)))
		for _, r := range p.Rows {
			cells := make([]string, len(r))
			for i, c := range r {
				cells[i] = cell(c)
			}
			if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
				return err
			}
		}
	}
	return nil
}
