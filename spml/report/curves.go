package report

import (
	"cmp"
	"html/template"
	"math"
	"slices"

	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// epochs gives a curve over the epochs of a run.
func epochs(rec *rundir.Record, get func(train.EpochRecord) float64) (x, y []float64) {
	for _, e := range rec.Result.Epochs {
		x, y = append(x, float64(e.Epoch)), append(y, get(e))
	}
	return x, y
}

func runCurves(r *run) []template.HTML {
	series := func(name string, colour int, get func(train.EpochRecord) float64) chart.Series {
		x, y := epochs(r.Record, get)
		return chart.Series{Name: name, X: x, Y: y, Colour: colour}
	}
	var out []template.HTML
	var scores []chart.Series
	best := r.Record.Result.Best
	if !best.NoTest {
		scores = append(scores, series("test", 1, func(e train.EpochRecord) float64 { return e.TestMAP }))
	}
	if !best.NoVal {
		scores = append(scores, series("validation", 6, func(e train.EpochRecord) float64 { return e.ValMAP }))
	}
	if scores != nil {
		out = append(out, template.HTML(chart.Plot{Title: "Mean average precision by epoch", X: "epoch", Y: "%", WholeX: true, Series: scores}.Lines()))
	}
	out = append(out,
		template.HTML(chart.Plot{Title: "Training loss by epoch", X: "epoch", WholeX: true, Series: []chart.Series{series("loss", 1, func(e train.EpochRecord) float64 { return e.Loss })}}.Lines()))
	if c := means("Mean probability in training, by label", r.Scores); c != "" {
		out = append(out, template.HTML(c))
	}
	return out
}

// group is one of a part's groups of labels, as the pages name and colour them.
type group struct {
	name   string
	colour int
	get    func(*metric.PartScores) *metric.ScoreGroup
}

var groups = []group{
	{"observed positive", 1, func(p *metric.PartScores) *metric.ScoreGroup { return p.Positive }},
	{"hidden positive", 2, func(p *metric.PartScores) *metric.ScoreGroup { return p.Hidden }},
	{"absent", 6, func(p *metric.PartScores) *metric.ScoreGroup { return p.Absent }},
	{"unknown", 5, func(p *metric.PartScores) *metric.ScoreGroup { return p.Unknown }},
	{"observed negative", 8, func(p *metric.PartScores) *metric.ScoreGroup { return p.Negative }},
	{"pseudo-positive", 3, func(p *metric.PartScores) *metric.ScoreGroup { return p.Pseudo }},
}

func means(title string, scores []metric.EpochScores) string {
	p := chart.Plot{Title: title, X: "epoch", YRange: [2]float64{0, 1}, WholeX: true}
	for _, g := range groups {
		s := chart.Series{Name: g.name, Colour: g.colour}
		for _, e := range scores {
			if e.Train == nil || g.get(e.Train) == nil {
				continue
			}
			s.X, s.Y = append(s.X, float64(e.Epoch)), append(
				s.Y,
				g.get(e.Train).Mean(func(x *metric.ScoreGroup) float64 { return x.Probability }),
			)
		}
		if len(s.X) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	if len(p.Series) == 0 {
		return ""
	}
	return p.Lines()
}

// row is a group of an epoch for the page's script.
type row struct {
	Name   string  `json:"name"`
	Colour int     `json:"colour"`
	Mean   float64 `json:"mean"`
	Counts []int   `json:"counts"`
}

// epochRow is an epoch for the page's script.
type epochRow struct {
	Epoch int   `json:"epoch"`
	Rows  []row `json:"rows"`
}

const ridgeBins = 50

func rowsOf(e metric.EpochScores) []row {
	var out []row
	if e.Train == nil {
		return nil
	}
	for _, g := range groups {
		x := g.get(e.Train)
		if x == nil {
			continue
		}
		counts := make([]int, ridgeBins)
		for i, n := range x.Histogram {
			counts[i*ridgeBins/metric.ScoreBins] += n
		}
		out = append(
			out,
			row{
				g.name,
				g.colour,
				math.Round(1e3*x.Mean(func(x *metric.ScoreGroup) float64 { return x.Probability })) / 1e3,
				counts,
			},
		)
	}
	return out
}

// epochRows are the epochs of a run, at most 40 of them, evenly taken, the last among them; a row that an epoch lacks
// is empty there.
func epochRows(scores []metric.EpochScores) []epochRow {
	names := map[string]row{}
	for _, e := range scores {
		for _, r := range rowsOf(e) {
			names[r.Name] = r
		}
	}
	n := min(len(scores), 40)
	out := []epochRow{}
	for i := range n {
		at := len(scores) - 1
		if n > 1 {
			at = i * (len(scores) - 1) / (n - 1)
		}
		have := rowsOf(scores[at])
		e := epochRow{Epoch: scores[at].Epoch}
		for _, g := range groups {
			if _, any := names[g.name]; !any {
				continue
			}
			j := slices.IndexFunc(have, func(r row) bool { return r.Name == g.name })
			if j >= 0 {
				e.Rows = append(e.Rows, have[j])
			} else {
				e.Rows = append(e.Rows, row{g.name, g.colour, 0, make([]int, ridgeBins)})
			}
		}
		out = append(out, e)
	}
	return out
}

const (
	ridgesTitle = "Scores of the training labels"
	ridgesX     = "probability; each row is scaled by its highest bin, the dashed line is its mean"
)

func ridges(e metric.EpochScores) string {
	var rows []chart.Histogram
	for _, r := range rowsOf(e) {
		rows = append(rows, chart.Histogram{Name: r.Name, Counts: r.Counts, Mean: r.Mean, Colour: r.Colour})
	}
	return chart.Ridges(ridgesTitle, ridgesX, rows)
}

func pseudoCurve(r *run) string {
	p := chart.Plot{Title: "Pseudo-labels of " + r.Name, X: "epoch", Y: "%", YRange: [2]float64{0, 100}, WholeX: true}
	for i, q := range []struct {
		name string
		get  func(*metric.PseudoRecord) float64
	}{
		{"precision", func(x *metric.PseudoRecord) float64 { return x.Precision }},
		{"recall", func(x *metric.PseudoRecord) float64 { return x.Recall }},
		{"F1", func(x *metric.PseudoRecord) float64 { return x.F1 }},
		{"confidence", func(x *metric.PseudoRecord) float64 { return 100 * x.Confidence }},
	} {
		s := chart.Series{Name: q.name, Colour: i + 1, Dash: i}
		for _, e := range r.Record.Result.Epochs {
			if e.Pseudo != nil {
				s.X, s.Y = append(s.X, float64(e.Epoch)), append(s.Y, q.get(e.Pseudo))
			}
		}
		if len(s.X) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	if len(p.Series) == 0 {
		return ""
	}
	return p.Lines()
}

// comparisonCurves are means over seeds with their spread, and what the rows cost.
func comparisonCurves(t *compare.Table, groups []compare.Group, all [][]*run) []template.HTML {
	over := func(title, unit string, get func(*run) (x, y []float64)) string {
		p := chart.Plot{Title: title, X: "epoch", Y: unit, WholeX: true}
		for i, g := range groups {
			s := chart.Series{Name: g.Name, Colour: i%chart.Colours + 1, Dash: i / chart.Colours}
			var curves [][]float64
			for _, r := range all[i] {
				x, y := get(r)
				if len(x) > len(s.X) {
					s.X = x
				}
				curves = append(curves, y)
			}
			for k := range s.X {
				lo, hi, sum, n := math.Inf(1), math.Inf(-1), 0.0, 0.0
				for _, c := range curves {
					if k < len(c) {
						lo, hi, sum, n = min(lo, c[k]), max(hi, c[k]), sum+c[k], n+1
					}
				}
				s.Y, s.Low, s.High = append(s.Y, sum/n), append(s.Low, lo), append(s.High, hi)
			}
			if len(curves) < 2 {
				s.Low, s.High = nil, nil
			}
			if len(s.X) > 0 {
				p.Series = append(p.Series, s)
			}
		}
		if len(p.Series) == 0 {
			return ""
		}
		return p.Lines()
	}
	part, none := "Test", func(e train.EpochRecord) bool { return e.NoTest }
	value := func(e train.EpochRecord) float64 { return e.TestMAP }
	if t.Rows[0].NoTest {
		part, none = "Validation", func(e train.EpochRecord) bool { return e.NoVal }
		value = func(e train.EpochRecord) float64 { return e.ValMAP }
	}
	pictures := []string{
		t.Chart(),
		over(part+" mAP by epoch", "%", func(r *run) (x, y []float64) {
			if none(r.Record.Result.Best) {
				return nil, nil
			}
			return epochs(r.Record, value)
		}),
		over("Distance of hidden positives and absent labels", "W₁, validation", func(r *run) (x, y []float64) {
			for _, e := range r.Scores {
				if e.Val != nil && e.Val.W1 != nil {
					x, y = append(x, float64(e.Epoch)), append(y, *e.Val.W1)
				}
			}
			return x, y
		}),
		over("Mean probability of hidden positives in training", "", func(r *run) (x, y []float64) {
			for _, e := range r.Scores {
				if e.Train != nil && e.Train.Hidden != nil {
					x, y = append(x, float64(e.Epoch)), append(
						y,
						e.Train.Hidden.Mean(func(g *metric.ScoreGroup) float64 { return g.Probability }),
					)
				}
			}
			return x, y
		}),
	}
	var cost []chart.Bar
	for _, r := range t.Rows {
		if r.Name != compare.ZeroShotRow && r.LeftOut == "" {
			cost = append(cost, chart.Bar{Name: r.Name, Values: []float64{r.Seconds}})
		}
	}
	pictures = append(pictures, chart.Bars("Seconds of a run", []string{"s"}, 0, cost))
	var out []template.HTML
	for _, p := range pictures {
		if p != "" {
			out = append(out, template.HTML(p))
		}
	}
	return out
}

// classRow is a class of a single run's page.
type classRow struct {
	class
	Bar float64 // percent of the widest
}

func classRows(classes []class) []classRow {
	var out []classRow
	for _, c := range classes {
		out = append(out, classRow{c, c.AP})
	}
	slices.SortStableFunc(out, func(a, b classRow) int { return cmp.Compare(b.AP, a.AP) })
	return out
}

// classTable is the average precision of each class by method.
type classTable struct {
	Methods []string
	Rows    []classCells
}

type classCells struct {
	Name      string
	Positives int
	Cells     []cell
}

type cell struct {
	AP    float64
	Best  bool
	Shade float64 // of the accent, 0…0.6
}

// byClass gives means over seeds, the classes whose methods differ most first; nil where classes are not known.
func byClass(groups []compare.Group, all [][]*run) *classTable {
	if len(all) == 0 || len(all[0]) == 0 || len(all[0][0].Classes) == 0 {
		return nil
	}
	t := &classTable{}
	for k, c := range all[0][0].Classes {
		r := classCells{Name: c.Name, Positives: c.Positives}
		for i := range groups {
			sum, n := 0.0, 0.0
			for _, x := range all[i] {
				if k < len(x.Classes) && x.Classes[k].Name == c.Name {
					sum, n = sum+x.Classes[k].AP, n+1
				}
			}
			if n > 0 {
				r.Cells = append(r.Cells, cell{AP: sum / n})
			}
		}
		t.Rows = append(t.Rows, r)
	}
	for i, g := range groups {
		if len(all[i]) > 0 {
			t.Methods = append(t.Methods, g.Name)
		}
	}
	t.Rows = slices.DeleteFunc(t.Rows, func(r classCells) bool { return len(r.Cells) != len(t.Methods) })
	spread := func(r classCells) (lo, hi float64) {
		lo, hi = math.Inf(1), math.Inf(-1)
		for _, c := range r.Cells {
			lo, hi = min(lo, c.AP), max(hi, c.AP)
		}
		return lo, hi
	}
	for _, r := range t.Rows {
		lo, hi := spread(r)
		for i, c := range r.Cells {
			r.Cells[i].Best = c.AP == hi
			if hi > lo {
				r.Cells[i].Shade = math.Round(55*(c.AP-lo)/(hi-lo)) / 100
			}
		}
	}
	slices.SortStableFunc(t.Rows, func(a, b classCells) int {
		la, ha := spread(a)
		lb, hb := spread(b)
		return cmp.Compare(hb-lb, ha-la)
	})
	return t
}

// thresholdPlot draws precision, recall and F1 over the threshold, of all classes together.
func thresholdPlot(b *bins) string {
	p := chart.Plot{Title: thresholdTitle, X: "threshold", XRange: [2]float64{0, 1}, YRange: [2]float64{0, 1}}
	var precision, recall, f1, x []float64
	for t := range thresholdBins {
		tp, fp, positives := 0, 0, 0
		for k := range b.Positive {
			for i := range thresholdBins {
				positives += b.Positive[k][i]
				if i >= t {
					tp, fp = tp+b.Positive[k][i], fp+b.Negative[k][i]
				}
			}
		}
		ratio := func(a, b int) float64 {
			if b == 0 {
				return math.NaN()
			}
			return float64(a) / float64(b)
		}
		x = append(x, float64(t)/thresholdBins)
		precision, recall, f1 = append(precision, ratio(tp, tp+fp)), append(recall, ratio(tp, positives)), append(f1, ratio(2*tp, tp+fp+positives))
	}
	p.Series = []chart.Series{{Name: "precision", X: x, Y: precision, Colour: 2}, {Name: "recall", X: x, Y: recall, Colour: 3}, {Name: "F1", X: x, Y: f1, Colour: 1}}
	return p.Lines()
}

const thresholdTitle = "Precision, recall and F1 by threshold"
