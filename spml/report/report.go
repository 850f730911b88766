// Package report writes what came out of runs as one HTML file: curves, classes, where scores lie, photos with what the
// model looked at, thresholds to try, and what is needed to repeat it, for a single run or for a comparison of several.
//
// The file holds everything it shows; its content security policy forbids requests. Its pictures are SVG, light or dark
// as the reader's system says, and it is readable without its script, which only moves sliders.
//
// Functions may be called from many goroutines and return errors.
package report

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Options are the choices of Make. The zero value is a good one.
type Options struct {
	Title      string
	Photos     int // best and worst photos, 4 of each by default; -1: none
	Replicates int // of the bootstrap over test images; 0: 1000
}

// MaxBytes bounds a report.
const MaxBytes = 5 << 20

// run is what the page shows of a run.
type run struct {
	Name    string // of the row, with the seed where it has several
	Record  *rundir.Record
	Scores  []metric.EpochScores
	Classes []class
	Bins    *bins // of the test scores; nil where the data set or its labels are not there
	Photos  []Photo
	notes   []string // what is missing and why
	ds      *data.Dataset
	test    *train.Scores
}

// class is a class of the test part.
type class struct {
	Name      string  `json:"name"`
	AP        float64 `json:"ap"` // percent
	Positives int     `json:"positives"`
}

// bins are test scores of the best epoch in thresholdBins equal bins on 0…1, by class and true label.
type bins struct {
	Positive [][]int `json:"positive"` // [C][thresholdBins]
	Negative [][]int `json:"negative"`
}

const thresholdBins = 100

// Make writes the report of a run, of several, or of the folder of a comparison.
func Make(ctx context.Context, paths []string, o Options) (_ []byte, err error) {
	defer caught.Recover(&err)
	if len(paths) == 0 {
		return nil, &config.Error{Msg: "a report wants a run directory"}
	}
	if o.Photos == 0 {
		o.Photos = 4
	}
	o.Photos = min(o.Photos, 1<<20) // more than a page can hold
	p := &page{Title: o.Title, Dark: dark, Light: light}
	if len(paths) == 1 && rundir.Exists(paths[0]) {
		err = p.single(ctx, paths[0], o)
	} else {
		err = p.several(ctx, paths, o)
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := pageHTML.ExecuteTemplate(&b, "page", p); err != nil {
		return nil, err
	}
	if b.Len() > MaxBytes {
		return nil, fmt.Errorf("the report has %.1f MB, more than %d; ask for fewer photos", float64(b.Len())/(1<<20), MaxBytes>>20)
	}
	return b.Bytes(), nil
}

func (p *page) single(ctx context.Context, dir string, o Options) error {
	rec, err := rundir.ReadRecord(dir)
	if err != nil {
		return err
	}
	if rec.Result == nil || len(rec.Result.Epochs) == 0 {
		return fmt.Errorf("%w: %s has not ended; go on with `spml train --run %s --resume`", train.ErrData, dir, dir)
	}
	r, err := gather(rec, rec.Config.Method.ID)
	if err != nil {
		return err
	}
	if o.Photos > 0 {
		if err := r.photos(ctx, o.Photos); err != nil {
			return err
		}
	}
	if p.Title == "" {
		p.Title = fmt.Sprintf("%s on %s", rec.Config.Method.ID, rec.Environment.Data)
	}
	p.Subtitle = fmt.Sprintf(
		"One run of %s, %s, seed %d, %s.",
		rec.Config.Method.ID,
		rec.Config.Model.Backbone,
		rec.Config.Run.Seed,
		rec.Environment.Started.Format("2 January 2006"),
	)
	res := rec.Result
	seconds := 0.0
	for _, e := range res.Epochs {
		seconds += e.Seconds
	}
	p.Facts = []fact{
		{"Test mAP", unit(res.Best.Test()), fmt.Sprintf("of epoch %d of %d", res.Best.Epoch, len(res.Epochs))},
		{"Validation mAP", unit(res.Best.Val()), validation(res.Best)},
		{"Images", fmt.Sprint(rec.Environment.Rows[0]), fmt.Sprintf("to train; %d val, %d test", rec.Environment.Rows[1], rec.Environment.Rows[2])},
		{"Time", clock(seconds), fmt.Sprintf("%d threads, %s", rec.Environment.Threads, rec.Environment.Precision)},
	}
	p.Curves = append(p.Curves, runCurves(r)...)
	p.Classes = classRows(r.Classes)
	p.fill([]*run{r})
	p.Photos = r.Photos
	return nil
}

func (p *page) several(ctx context.Context, paths []string, o Options) error {
	t, groups, err := compare.Collect(paths, o.Replicates)
	if err != nil {
		return err
	}
	var runs []*run  // the first seed of each row
	var all [][]*run // every seed
	for _, g := range groups {
		var of []*run
		for i, rec := range g.Runs {
			r, err := gather(rec, g.Name)
			if err != nil {
				return err
			}
			of = append(of, r)
			if i == 0 {
				runs = append(runs, r)
			}
		}
		all = append(all, of)
	}
	if len(runs) == 0 {
		return fmt.Errorf("%w: the comparison has no run", train.ErrData)
	}
	if p.Title == "" {
		p.Title = fmt.Sprintf("%d methods on %s", len(runs), t.Data)
	}
	seeds := len(t.Rows[0].Seeds)
	p.Subtitle = fmt.Sprintf("%d test images, %s. Test mAP of the epoch with the best validation mAP, mean and standard deviation over seeds.", t.Test, count(seeds, "seed"))
	val := t.Rows[0].NoTest
	if p.Measure = "Test mAP, %"; val {
		p.Measure = "Validation mAP, %"
		why := "No test row has full labels"
		if t.Hidden {
			why = "The runs leave the test part alone"
		}
		p.Subtitle = fmt.Sprintf("%s, so test mAP is n/a; %s. Validation mAP of the best epoch, mean and standard "+
			"deviation over seeds.", why, count(seeds, "seed"))
	}
	best := t.Rows[0]
	for _, r := range t.Rows {
		if mean, _, text := score(r, val); text != "n/a" && r.Name != compare.ZeroShotRow {
			if top, _, _ := score(best, val); mean > top {
				best = r
			}
		}
	}
	_, _, highest := score(best, val)
	_, _, baseline := score(t.Rows[0], val)
	p.Facts = []fact{
		{"Best", unit(highest), best.Name},
		{"Baseline", unit(baseline), t.Rows[0].Name},
		{"Runs", fmt.Sprint(len(runs) * seeds), count(len(runs), "method") + ", " + count(seeds, "seed")},
	}
	p.Table, p.Parts = table(t), t.Parts()
	p.Curves = append(p.Curves, comparisonCurves(t, groups, all)...)
	p.ByClass = byClass(groups, all)
	p.fill(runs)
	if o.Photos > 0 && len(runs) > 1 {
		i := slices.IndexFunc(groups, func(g compare.Group) bool { return g.Name == best.Name })
		if i < 1 {
			i = len(runs) - 1
		}
		if p.Photos, err = differing(ctx, runs[0], runs[i], o.Photos*2); err != nil {
			return err
		}
		p.PhotosOf = [2]string{runs[0].Name, runs[i].Name}
	}
	return nil
}

// unit puts percent behind a score that there is.
func unit(score string) string {
	if score == "n/a" {
		return score
	}
	return score + " %"
}

// validation says what the validation score did.
func validation(e train.EpochRecord) string {
	switch {
	case e.NoVal:
		return "no row can be scored: the last epoch is kept"
	case e.ValObserved:
		return "against observed labels; chose that epoch"
	}
	return "chose that epoch"
}

// gather reads what a run left. Labels come from its data set; where that is not there any more the page says so.
func gather(rec *rundir.Record, name string) (*run, error) {
	r := &run{Name: name, Record: rec}
	var err error
	if r.Scores, err = rundir.ReadEpochScores(rec.Dir); err != nil {
		return nil, err
	}
	if len(r.Scores) == 0 {
		r.notes = append(r.notes, "The run has no scores.jsonl: it was trained by a version that did not count scores.")
	}
	c, err := rec.Config.Resolve()
	if err != nil {
		return nil, err
	}
	ds, err := c.Data.Open()
	if err != nil {
		r.notes = append(r.notes, fmt.Sprintf("The data set cannot be read here (%v), so classes, thresholds and photos are left out.", err))
		return r, nil
	}
	if ds.Fingerprint() != rec.Environment.DataSHA256 {
		r.notes = append(
			r.notes,
			fmt.Sprintf(
				"%s has changed since the run, so classes, thresholds and photos are left out.",
				rec.Config.Data.Path,
			),
		)
		return r, ds.Close()
	}
	sc, err := rundir.ReadTestScores(rec.Dir)
	if err != nil {
		r.notes = append(r.notes, "The run has no test scores: its data have no test part with full labels.")
		return r, ds.Close()
	}
	r.ds, r.test = ds, sc
	defer ds.Close()
	ap, err := sc.PerClass(ds, ds.Labels)
	if err != nil {
		return nil, err
	}
	n := ds.C()
	r.Bins = &bins{Positive: make([][]int, n), Negative: make([][]int, n)}
	truth := ds.Gather(ds.Labels, sc.Rows)
	for k, name := range ds.Classes {
		r.Bins.Positive[k], r.Bins.Negative[k] = make([]int, thresholdBins), make([]int, thresholdBins)
		x := class{Name: name, AP: math.Round(1e4*ap[k]) / 100}
		for i := range sc.Rows {
			at := min(int(float64(sc.Values[i*n+k])*thresholdBins), thresholdBins-1)
			if truth[i*n+k] == 1 {
				x.Positives++
				r.Bins.Positive[k][at]++
			} else {
				r.Bins.Negative[k][at]++
			}
		}
		r.Classes = append(r.Classes, x)
	}
	return r, nil
}

// score is a row's mean and deviation: of test mAP, or of validation mAP. text is the mean with two digits, "n/a" where
// there is none.
func score(r compare.Row, val bool) (mean, sd float64, text string) {
	none := r.NoTest
	if mean, sd = r.BestMean, r.BestSD; val {
		mean, sd, none = r.ValMean, r.ValSD, len(r.Val) == 0
	}
	if r.LeftOut != "" || none {
		return 0, 0, "n/a"
	}
	return mean, sd, fmt.Sprintf("%.2f", mean)
}

// table are the rows of a comparison.
func table(t *compare.Table) []tableRow {
	top, val := 1.0, t.Rows[0].NoTest
	for _, r := range t.Rows {
		mean, sd, _ := score(r, val)
		top = max(top, mean+sd)
	}
	var out []tableRow
	for _, r := range t.Rows {
		if r.LeftOut != "" {
			out = append(out, tableRow{Name: r.Name, Mean: "n/a", SD: r.LeftOut, Last: "n/a"})
			continue
		}
		mean, sd, text := score(r, val)
		x := tableRow{Name: r.Name, Mean: text, Last: fmt.Sprintf("%.2f", r.LastMean), Bar: 100 * mean / top, Seconds: clock(r.Seconds)}
		if r.NoTest {
			x.Last = "n/a"
		}
		if len(r.Seeds) > 1 && text != "n/a" {
			x.SD = fmt.Sprintf("± %.2f", sd)
		}
		if r.Name == compare.ZeroShotRow {
			x.Seconds = "–"
		}
		if d := r.Difference; d != nil {
			x.Difference = fmt.Sprintf("%+.2f", d.Difference.Value)
			x.Interval = fmt.Sprintf("%+.2f … %+.2f", d.Difference.Low, d.Difference.High)
			x.P = fmt.Sprintf("%.3f", d.P)
			x.Clear = d.Difference.Low > 0 || d.Difference.High < 0
		}
		out = append(out, x)
	}
	return out
}

// fill puts in what both kinds of page have: scores, thresholds, environment, commands.
func (p *page) fill(runs []*run) {
	for _, r := range runs {
		rec := r.Record
		p.Runs = append(p.Runs, embedded{Name: r.Name, Epochs: epochRows(r.Scores), Classes: r.Classes, Bins: r.Bins, Threshold: threshold(rec)})
		for _, n := range r.notes {
			if len(runs) > 1 {
				n = r.Name + ": " + n
			}
			p.Notes = append(p.Notes, n)
		}
		p.Commands = append(p.Commands, command{r.Name, repeat(rec)})
	}
	first := runs[0]
	if len(first.Scores) > 0 {
		p.Scores = template.HTML(ridges(first.Scores[len(first.Scores)-1]))
		p.LastEpoch = len(first.Scores)
	}
	p.HasBins = first.Bins != nil
	if p.HasBins {
		p.Thresholds = template.HTML(thresholdPlot(first.Bins))
		p.ThresholdAt = int(math.Round(100 * p.Runs[0].Threshold))
	}
	for _, r := range runs {
		if c := pseudoCurve(r); c != "" {
			p.Pseudo = append(p.Pseudo, template.HTML(c))
		}
	}
	p.Environment = environment(first.Record)
	if len(p.Environment) > 0 && len(runs) > 1 {
		p.EnvironmentOf = first.Name
	}
}

func threshold(rec *rundir.Record) float64 {
	mc, err := model.ReadConfig(rec.Dir)
	if err != nil {
		return 0.5
	}
	return mc.Threshold
}

// environment are the facts that repeating needs.
func environment(rec *rundir.Record) []fact {
	e := rec.Environment
	facts := []fact{
		{"gospml", strings.TrimSpace(e.Module + " " + e.Commit), ""}, {"Go", e.Go, ""}, {"libtorch", e.Libtorch, ""}, {"CPU", e.CPU, ""}, {"Cores, threads", fmt.Sprintf("%d, %d", e.Cores, e.Threads), ""},
		{"Processes", fmt.Sprint(max(e.Processes, 1)), ""}, {"Precision", e.Precision, ""}, {"Started", e.Started.Format("2006-01-02 15:04:05 MST"), ""}, {"Data", e.Data, ""}, {"Data SHA-256", e.DataSHA256, ""},
		{"Observed labels", e.ObservedFrom, ""}, {"Observed SHA-256", e.ObservedSHA, ""}, {"Split", e.SplitFrom, ""}, {"Weights SHA-256", e.WeightsSHA256, ""}, {"Features SHA-256", e.Features, ""},
		{"Pseudo-labels SHA-256", e.Pseudo, ""}, {"CLIP SHA-256", e.Clip, ""},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

// repeat is the command that trains the run again: the settings that are not defaults.
func repeat(rec *rundir.Record) string {
	c := rec.Config
	base, err := config.Config{
		Data:   config.Data{Path: c.Data.Path},
		Method: config.Method{ID: c.Method.ID},
		Pseudo: config.Pseudo{File: c.Pseudo.File, Clip: c.Pseudo.Clip},
		Model: config.Model{
			Weights:        c.Model.Weights,
			Features:       c.Model.Features,
			Mode:           c.Model.Mode,
			StrongFeatures: c.Model.StrongFeatures,
			Backbone:       c.Model.Backbone,
		},
		Run: config.Run{Seed: c.Run.Seed},
	}.Resolve()
	if err != nil {
		return "spml train --config " + quote(rec.Dir+"/run.yaml") + " --run NEW"
	}
	plain, err := config.Config{
		Data:   config.Data{Path: c.Data.Path},
		Method: config.Method{ID: c.Method.ID},
		Model:  config.Model{Weights: c.Model.Weights},
	}.Resolve()
	mine, defaults := c.AsSettings(), base.AsSettings()
	parts := []string{"spml train"}
	for _, s := range config.Settings() {
		v := mine[s.Key]
		if s.Key == "run" || s.Key == "stage_one" || v == nil {
			continue
		}
		chosen := fmt.Sprint(v) != fmt.Sprint(defaults[s.Key])
		switch s.Key {
		case "data", "method", "seed":
			chosen = true
		case "weights", "features", "strong_features", "pseudo_labels":
			chosen = fmt.Sprint(v) != ""
		case "mode", "backbone", "clip":
			chosen = err != nil || fmt.Sprint(v) != fmt.Sprint(plain.AsSettings()[s.Key])
		}
		if !chosen {
			continue
		}
		if s.Key == "params" {
			for _, k := range slices.Sorted(maps.Keys(c.Method.Params)) {
				parts = append(parts, fmt.Sprintf("--param %s=%v", k, c.Method.Params[k]))
			}
			continue
		}
		flag := "--" + strings.ReplaceAll(s.Key, "_", "-")
		if b, ok := v.(bool); ok {
			parts = append(parts, fmt.Sprintf("%s=%v", flag, b))
			continue
		}
		if s.Key == "mode" && v == config.Frozen {
			parts = append(parts, "--frozen")
			continue
		}
		parts = append(parts, flag+" "+quote(fmt.Sprint(v)))
	}
	return strings.Join(append(parts, "--run NEW"), " ")
}

func quote(s string) string {
	if strings.ContainsAny(s, " \t\n'\"\\$&;|<>()*?[]#~`") || s == "" {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func clock(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%d:%02d min", int(seconds)/60, int(seconds)%60)
	}
	return fmt.Sprintf("%d:%02d h", int(seconds)/3600, int(seconds)/60%60)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// perImage is the log loss of each test image against its full labels.
func perImage(r *run) []float64 {
	c := r.ds.C()
	out := make([]float64, len(r.test.Rows))
	for i, row := range r.test.Rows {
		for k, y := range r.ds.LabelRow(row) {
			p := min(max(float64(r.test.Values[i*c+k]), 1e-6), 1-1e-6)
			if y == 1 {
				out[i] -= math.Log(p)
			} else {
				out[i] -= math.Log(1 - p)
			}
		}
		out[i] /= float64(c)
	}
	return out
}
