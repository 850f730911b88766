// Package figure draws the papers' figures that show runs, from what run directories and folders of sweeps hold.
//
// Functions keep no state, may be called from many goroutines and return errors.
package figure

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Figure is one that Draw knows.
type Figure struct {
	ID    string
	Title string
	Wants string // its arguments
	draw  func(ctx context.Context, f *Figure, paths []string, o Options) ([]string, error)
}

// Options are the choices of Draw.
type Options struct {
	Class string // of em:fig10; empty: the one with the most hidden positives
	// of aevlp:supplement-fig1: whose grid and overlap, as vlm.Published has them; empty: the paper's 3×3 tiles and 0.2
	DataSet string
}

// Figures are those that Draw knows, by id.
func Figures() []Figure {
	return []Figure{
		{"gr:fig2a", "test mAP over the last threshold τ = -b/w of k̂, a curve for each b(T)", "the folder of spml reproduce gr:fig2a", sweep},
		{"gr:fig2b", "test mAP over μ(T), a curve for each σ(T)", "the folder of spml reproduce gr:fig2b", sweep},
		{"gr:fig2c", "validation mAP by epoch, a curve for each q2 and q3", "the folder of spml reproduce gr:fig2c", epochs},
		{"gr:fig3", "confidence of hidden positives and of absent labels on validation: their distance by epoch, their histograms at the best one", "runs, AN's and GR's in the paper", confidence},
		{"gr:fig5", "share of hidden positives per bin of confidence on validation, after the first and after the last epoch", "runs", ratio},
		{"em:fig7", "training by epoch: loss of observed positives, mean logit of what is not observed, mean probability of positives (also Figs. 8 and 9)", "runs, AN's and EM's in the paper", training},
		{"em:fig10", "classes: what is not observed, and the probabilities of one class in training and in the test part (also Fig. 11)", "runs, AN's and EM's in the paper", classes},
		{"vlpl:fig3", "test mAP over the temperature, a curve for each threshold", "the folder of spml sweep", sweep},
		{"aevlp:supplement-fig1", "DAMP's tiles of a photo, cut with other random overlaps in each epoch", "a photo, or several", tiles},
		{"lac:fig3", "test mAP over threshold, temperature or length of the queue (also Figs. 4 and 5)", "the folder of spml sweep", sweep},
	}
}

// Draw draws a figure from runs, or from the folder of a sweep, as an SVG file.
func Draw(ctx context.Context, id string, paths []string, o Options) ([]byte, error) {
	all := Figures()
	i := slices.IndexFunc(all, func(f Figure) bool { return f.ID == id })
	if i < 0 {
		var names []string
		for _, f := range all {
			names = append(names, f.ID)
		}
		return nil, &config.Error{
			Msg: fmt.Sprintf(
				"no figure of runs is called %q; there are %s (others: spml reproduce list)",
				id,
				strings.Join(names, ", "),
			),
		}
	}
	if len(paths) == 0 {
		return nil, &config.Error{Msg: fmt.Sprintf("%s wants %s", id, all[i].Wants)}
	}
	pictures, err := all[i].draw(ctx, &all[i], paths, o)
	if err != nil {
		return nil, err
	}
	return chart.Standalone(id+": "+all[i].Title, pictures...), nil
}

// run is a finished run with its scores by epoch.
type run struct {
	*rundir.Record
	name   string
	scores []metric.EpochScores
}

func open(paths []string) ([]run, error) {
	var out []run
	names := map[string]int{}
	for _, p := range paths {
		r, err := rundir.ReadRecord(p)
		if err != nil {
			return nil, err
		}
		if r.Result == nil {
			return nil, fmt.Errorf("%w: %s has not ended; go on with `spml train --run %s --resume`", train.ErrData, p, p)
		}
		s, err := rundir.ReadEpochScores(p)
		if err != nil {
			return nil, err
		}
		if len(s) == 0 {
			return nil, fmt.Errorf("%w: %s has no scores.jsonl, a version before it trained it; train it anew", train.ErrData, p)
		}
		out = append(out, run{r, r.Config.Method.ID, s})
		names[r.Config.Method.ID]++
	}
	for i := range out {
		if names[out[i].name] > 1 {
			out[i].name += " " + out[i].Dir
		}
	}
	return out, nil
}

// over is a curve over epochs of one of the groups; epochs without the group have no point.
func (r *run) over(
	part func(metric.EpochScores) *metric.PartScores,
	get func(*metric.PartScores) (float64, bool),
) (x, y []float64) {
	for _, e := range r.scores {
		if p := part(e); p != nil {
			if v, ok := get(p); ok {
				x, y = append(x, float64(e.Epoch)), append(y, v)
			}
		}
	}
	return x, y
}

func trainPart(e metric.EpochScores) *metric.PartScores { return e.Train }
func valPart(e metric.EpochScores) *metric.PartScores   { return e.Val }

func mean(
	group func(*metric.PartScores) *metric.ScoreGroup,
	sum func(*metric.ScoreGroup) float64,
) func(*metric.PartScores) (float64, bool) {
	return func(p *metric.PartScores) (float64, bool) { return group(p).Mean(sum), group(p) != nil }
}

func positive(p *metric.PartScores) *metric.ScoreGroup { return p.Positive }
func hidden(p *metric.PartScores) *metric.ScoreGroup   { return p.Hidden }
func absent(p *metric.PartScores) *metric.ScoreGroup   { return p.Absent }

func probability(g *metric.ScoreGroup) float64 { return g.Probability }

// confidence is GR's Fig. 3.
func confidence(_ context.Context, f *Figure, paths []string, _ Options) ([]string, error) {
	runs, err := open(paths)
	if err != nil {
		return nil, err
	}
	p := chart.Plot{Title: "Distance of hidden positives and absent labels", X: "epoch", Y: "W₁", WholeX: true}
	var pictures []string
	for i := range runs {
		r := &runs[i]
		x, y := r.over(valPart, func(s *metric.PartScores) (float64, bool) {
			if s.W1 == nil {
				return 0, false
			}
			return *s.W1, true
		})
		if len(x) == 0 {
			return nil, fmt.Errorf("%w: %s: %s has no validation part with full labels", train.ErrData, f.ID, r.Dir)
		}
		p.Series = append(p.Series, chart.Series{Name: r.name, X: x, Y: y})
		best := r.at(r.Result.Best.Epoch)
		pictures = append(pictures, chart.Ridges(fmt.Sprintf("%s, validation after epoch %d", r.name, best.Epoch), "label confidence", []chart.Histogram{
			histogram("hidden positives", best.Val.Hidden, 3), histogram("absent", best.Val.Absent, 2)}))
	}
	return append([]string{p.Lines()}, pictures...), nil
}

func histogram(name string, g *metric.ScoreGroup, colour int) chart.Histogram {
	h := chart.Histogram{Name: name, Colour: colour, Counts: make([]int, metric.ScoreBins)}
	if g != nil {
		h.Counts, h.Mean = g.Histogram, g.Mean(probability)
	}
	return h
}

// at gives the scores of an epoch, or of the last one.
func (r *run) at(epoch int) metric.EpochScores {
	for _, e := range r.scores {
		if e.Epoch == epoch {
			return e
		}
	}
	return r.scores[len(r.scores)-1]
}

// ratio is GR's Fig. 5; the paper's first cloud is before training, ours after the first epoch.
func ratio(_ context.Context, f *Figure, paths []string, _ Options) ([]string, error) {
	runs, err := open(paths)
	if err != nil {
		return nil, err
	}
	var pictures []string
	for _, r := range runs {
		p := chart.Plot{Title: r.name + ": hidden positives among what is not observed", X: "confidence on validation", XRange: [2]float64{0, 1}, YRange: [2]float64{0, 1}}
		for i, e := range []metric.EpochScores{r.scores[0], r.scores[len(r.scores)-1]} {
			if e.Val == nil || e.Val.Hidden == nil || e.Val.Absent == nil {
				return nil, fmt.Errorf("%w: %s: %s has no validation part with full labels", train.ErrData, f.ID, r.Dir)
			}
			s := chart.Series{Name: fmt.Sprintf("after epoch %d", e.Epoch), Colour: []int{6, 1}[i]}
			for k := range metric.ScoreBins {
				if a, b := e.Val.Hidden.Histogram[k], e.Val.Absent.Histogram[k]; a+b > 0 {
					s.X, s.Y = append(s.X, (float64(k)+0.5)/metric.ScoreBins), append(s.Y, float64(a)/float64(a+b))
				}
			}
			p.Series = append(p.Series, s)
		}
		pictures = append(pictures, p.Points())
	}
	return pictures, nil
}

// training is EM's Figs. 7 to 9.
func training(_ context.Context, _ *Figure, paths []string, _ Options) ([]string, error) {
	runs, err := open(paths)
	if err != nil {
		return nil, err
	}
	type line struct {
		name  string
		group func(*metric.PartScores) *metric.ScoreGroup
	}
	plot := func(title string, sum func(*metric.ScoreGroup) float64, lines ...line) string {
		p := chart.Plot{Title: title, X: "epoch", WholeX: true}
		for i := range runs {
			for k, l := range lines {
				x, y := runs[i].over(trainPart, mean(l.group, sum))
				if len(x) > 0 {
					p.Series = append(p.Series, chart.Series{Name: strings.TrimSpace(runs[i].name + " " + l.name), X: x, Y: y, Colour: i%chart.Colours + 1, Dash: k})
				}
			}
		}
		return p.Lines()
	}
	return []string{
		plot(
			"Fig. 7: mean loss of observed positives, -log p",
			func(g *metric.ScoreGroup) float64 { return g.LogLoss },
			line{"", positive},
		),
		plot(
			"Fig. 8: mean |logit| of what is not observed",
			func(g *metric.ScoreGroup) float64 { return g.AbsLogit },
			line{"hidden positives", hidden},
			line{"absent", absent},
		),
		plot(
			"Fig. 9: mean probability of positives",
			probability,
			line{"observed", positive},
			line{"hidden", hidden},
		),
	}, nil
}

// classes are EM's Figs. 10 and 11.
func classes(ctx context.Context, _ *Figure, paths []string, o Options) ([]string, error) {
	var pictures []string
	for i, dir := range paths {
		var parts [2][]chart.Histogram
		name, which := "", -1
		for p, part := range []data.Split{data.Train, data.Test} {
			ds, sc, err := evaluate.Score(ctx, dir, part, train.Events{})
			if err != nil {
				return nil, err
			}
			c := ds.C()
			truth, observed := ds.Gather(ds.Labels, sc.Rows), make([]int8, len(sc.Values))
			if part == data.Train && ds.Observed != nil {
				observed = ds.Gather(ds.Observed, sc.Rows)
			}
			if part == data.Train {
				rows, most := []chart.Bar{}, -1.0
				for k, n := range ds.Classes {
					hidden, all := 0.0, 0.0
					for r := range sc.Rows {
						if observed[r*c+k] != 1 {
							all++
							hidden += float64(truth[r*c+k])
						}
					}
					rows = append(rows, chart.Bar{Name: n, Values: []float64{hidden / max(all, 1)}, Note: fmt.Sprintf("%.0f", hidden)})
					if o.Class == n || o.Class == "" && hidden > most {
						which, most, name = k, hidden, n
					}
				}
				if which < 0 {
					return nil, &config.Error{
						Msg: fmt.Sprintf("no class is called %q; there are %s", o.Class, strings.Join(ds.Classes, ", ")),
					}
				}
				if i == 0 {
					pictures = append(pictures, chart.Bars("Fig. 10: share of positives among what is not observed", []string{"positives"}, 1, rows))
				}
			}
			var groups [2]metric.ScoreGroup
			for y := range groups {
				groups[y].Histogram = make([]int, metric.ScoreBins)
			}
			for r := range sc.Rows {
				if at := r*c + which; observed[at] != 1 {
					g, v := &groups[truth[at]], float64(sc.Values[at])
					g.Entries++
					g.Probability += v
					g.Histogram[min(int(v*metric.ScoreBins), metric.ScoreBins-1)]++
				}
			}
			parts[p] = []chart.Histogram{histogram("positives", &groups[1], 3), histogram("negatives", &groups[0], 2)}
		}
		rec, err := rundir.ReadRecord(dir)
		if err != nil {
			return nil, err
		}
		pictures = append(
			pictures,
			chart.Ridges(
				fmt.Sprintf("Fig. 11: %s, %s, training (not observed)", rec.Config.Method.ID, name),
				"probability",
				parts[0],
			),
			chart.Ridges(fmt.Sprintf("Fig. 11: %s, %s, test", rec.Config.Method.ID, name), "probability", parts[1]),
		)
	}
	return pictures, nil
}

// spread gives the settings of a row with those of pseudo_options, "tau=0.01;theta=0.2", one by one.
func spread(settings map[string]any) map[string]any {
	text, ok := settings["pseudo_options"].(string)
	if !ok {
		return settings
	}
	out := maps.Clone(settings)
	delete(out, "pseudo_options")
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ',' }) {
		if k, v, ok := strings.Cut(strings.TrimSpace(one), "="); ok {
			out[k] = v
		}
	}
	return out
}

// threshold puts τ = -b/w in place of GR's w(T).
func threshold(settings map[string]any) map[string]any {
	b, errB := strconv.ParseFloat(fmt.Sprint(settings["params.bT"]), 64)
	w, errW := strconv.ParseFloat(fmt.Sprint(settings["params.wT"]), 64)
	if errB != nil || errW != nil || w == 0 {
		return settings
	}
	out := maps.Clone(settings)
	delete(out, "params.wT")
	out["τ"] = strconv.FormatFloat(math.Round(-b/w*1e6)/1e6, 'g', -1, 64)
	return out
}

// epochs draws the validation mAP of every run of a sweep by epoch, the mean over seeds.
func epochs(_ context.Context, f *Figure, paths []string, _ Options) ([]string, error) {
	var pictures []string
	for _, dir := range paths {
		t, groups, err := compare.Collect([]string{dir}, 0)
		if err != nil {
			return nil, err
		}
		p := chart.Plot{Title: "Validation mAP on " + t.Data, X: "epoch", Y: "%", WholeX: true}
		for i, g := range groups {
			var sum []float64
			n := 0
			for _, run := range g.Runs {
				if run.Result == nil || sum != nil && len(run.Result.Epochs) != len(sum) {
					continue
				}
				if sum == nil {
					sum = make([]float64, len(run.Result.Epochs))
				}
				for k, e := range run.Result.Epochs {
					sum[k] += e.ValMAP
				}
				n++
			}
			s := chart.Series{Name: t.Rows[i].Name}
			for k := range sum {
				s.X, s.Y = append(s.X, float64(k+1)), append(s.Y, sum[k]/float64(n))
			}
			p.Series = append(p.Series, s)
		}
		if len(p.Series) == 0 {
			return nil, fmt.Errorf("%w: %s: %s holds no finished runs", train.ErrData, f.ID, dir)
		}
		pictures = append(pictures, p.Lines())
	}
	return pictures, nil
}

// sweep draws mAP over the settings that vary in a sweep: the one with the most values is the axis, another makes the
// curves.
func sweep(_ context.Context, f *Figure, paths []string, _ Options) ([]string, error) {
	var pictures []string
	for _, dir := range paths {
		t, _, err := compare.Collect([]string{dir}, 0)
		if err != nil {
			return nil, err
		}
		values := map[string][]float64{}
		for i := range t.Rows {
			t.Rows[i].Settings = spread(t.Rows[i].Settings)
			if f.ID == "gr:fig2a" {
				t.Rows[i].Settings = threshold(t.Rows[i].Settings)
			}
		}
		for _, r := range t.Rows {
			for k, v := range r.Settings {
				if x, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil && !slices.Contains(values[k], x) {
					values[k] = append(values[k], x)
				}
			}
		}
		var keys []string
		for k, v := range values {
			if len(v) > 1 {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		slices.SortStableFunc(keys, func(a, b string) int { return len(values[b]) - len(values[a]) })
		if len(keys) == 0 {
			return nil, fmt.Errorf("%w: %s: no number varies in %s; it wants the folder of a sweep: spml sweep --grid params.NAME=V,V …", train.ErrData, f.ID, dir)
		}
		p := chart.Plot{Title: "Test mAP on " + t.Data, X: strings.TrimPrefix(keys[0], "params."), Y: "%"}
		lines := map[string]*chart.Series{}
		var order []string
		for _, r := range t.Rows {
			x, err := strconv.ParseFloat(fmt.Sprint(r.Settings[keys[0]]), 64)
			if err != nil || r.LeftOut != "" || r.NoTest {
				continue
			}
			var with []string
			for _, k := range keys[1:] {
				with = append(with, fmt.Sprintf("%s %v", strings.TrimPrefix(k, "params."), r.Settings[k]))
			}
			name := strings.Join(with, ", ")
			if name == "" {
				name = "best epoch"
			}
			if lines[name] == nil {
				lines[name] = &chart.Series{Name: name}
				order = append(order, name)
			}
			s := lines[name]
			at, _ := slices.BinarySearch(s.X, x)
			s.X, s.Y = slices.Insert(s.X, at, x), slices.Insert(s.Y, at, r.BestMean)
			s.Low, s.High = slices.Insert(s.Low, at, r.BestMean-r.BestSD), slices.Insert(s.High, at, r.BestMean+r.BestSD)
		}
		for _, n := range order {
			p.Series = append(p.Series, *lines[n])
		}
		pictures = append(pictures, p.Lines())
	}
	return pictures, nil
}
