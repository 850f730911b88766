package compare

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Setting is one that two runs have with other values.
type Setting struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

// ClassDifference is the average precision of a class in two runs, in percent.
type ClassDifference struct {
	Class     string `json:"class"`
	Positives int    `json:"positives"` // test images that have the class
	metric.Comparison
}

// Difference is what Diff finds between two finished runs.
type Difference struct {
	A           string              `json:"a"`
	B           string              `json:"b"`
	Settings    []Setting           `json:"settings"`    // in the order of config.Settings
	Environment []Setting           `json:"environment"` // versions, processor, data
	EpochsA     []train.EpochRecord `json:"epochs_a"`
	EpochsB     []train.EpochRecord `json:"epochs_b"`
	BestA       train.EpochRecord   `json:"best_a"`
	BestB       train.EpochRecord   `json:"best_b"`
	// MAP and Classes compare the best epochs on common resamples of the test images; nil where WhyNot says why that cannot be.
	MAP     *metric.Comparison `json:"map,omitempty"`
	Classes []ClassDifference  `json:"classes,omitempty"` // the most changed first
	WhyNot  string             `json:"why_not,omitempty"`
}

// Diff compares two finished runs: settings, environment, curves, and the test scores of the best epochs with a paired bootstrap over images
// (replicates; 0: 1000). Runs on other data or other test images have no common score to compare; the rest is told all the same.
func Diff(dirA, dirB string, replicates int) (*Difference, error) {
	a, err := finished(dirA)
	if err != nil {
		return nil, err
	}
	b, err := finished(dirB)
	if err != nil {
		return nil, err
	}
	d := &Difference{
		A: dirA, B: dirB, EpochsA: a.Result.Epochs, EpochsB: b.Result.Epochs, BestA: a.Result.Best, BestB: b.Result.Best,
		Settings: changedSettings(a.Config, b.Config), Environment: changedEnvironment(a.Environment, b.Environment),
	}
	if a.Environment.DataSHA256 != b.Environment.DataSHA256 {
		d.WhyNot = "the runs are on other data, labels or splits"
		return d, nil
	}
	if a.Result.Best.NoTest || b.Result.Best.NoTest {
		d.WhyNot = "the test part has no full labels, or a run left it alone"
		return d, nil
	}
	return d, d.scores(a, replicates)
}

func finished(dir string) (*rundir.Record, error) {
	r, err := rundir.ReadRecord(dir)
	if err != nil {
		return nil, err
	}
	if r.Result == nil {
		return nil, fmt.Errorf("%w: %s has not ended; go on with `spml train --run %s --resume`", train.ErrData, dir, dir)
	}
	return r, nil
}

func changedSettings(a, b config.Config) []Setting {
	x, y := a.AsSettings(), b.AsSettings()
	out := []Setting{}
	for _, s := range config.Settings() {
		p, q := fmt.Sprint(x[s.Key]), fmt.Sprint(y[s.Key])
		if p != q && s.Key != "run" {
			out = append(out, Setting{s.Key, p, q})
		}
	}
	return out
}

func changedEnvironment(a, b rundir.Environment) []Setting {
	out := []Setting{}
	for _, s := range []Setting{
		{"module", a.Module + " " + a.Commit, b.Module + " " + b.Commit}, {"go", a.Go, b.Go}, {"libtorch", a.Libtorch, b.Libtorch},
		{"cpu", a.CPU, b.CPU}, {"threads", fmt.Sprint(a.Threads), fmt.Sprint(b.Threads)}, {"precision", a.Precision, b.Precision},
		{"data", a.DataSHA256, b.DataSHA256}, {"observed labels", a.ObservedSHA, b.ObservedSHA}, {"weights", a.WeightsSHA256, b.WeightsSHA256},
	} {
		if s.A, s.B = strings.TrimSpace(s.A), strings.TrimSpace(s.B); s.A != s.B {
			out = append(out, s)
		}
	}
	return out
}

// scores fills MAP and Classes.
func (d *Difference) scores(a *rundir.Record, replicates int) error {
	x, err := rundir.ReadTestScores(d.A)
	if err != nil {
		return fmt.Errorf("the scores of %s: %w", d.A, err)
	}
	y, err := rundir.ReadTestScores(d.B)
	if err != nil {
		return fmt.Errorf("the scores of %s: %w", d.B, err)
	}
	if !slices.Equal(x.Rows, y.Rows) {
		d.WhyNot = "the runs scored other test images"
		return nil
	}
	ds, err := a.Config.Data.Open()
	if err != nil {
		return err
	}
	defer ds.Close()
	if ds.Fingerprint() != a.Environment.DataSHA256 {
		d.WhyNot = fmt.Sprintf("%s has changed since the runs", a.Config.Data.Path)
		return nil
	}
	c, r := ds.C(), metric.Resampling{Replicates: replicates}
	truth := ds.Gather(ds.Labels, x.Rows)
	whole, err := metric.CompareMAP(x.Values, y.Values, truth, c, r)
	if err != nil {
		return err
	}
	d.MAP = &whole
	n := len(x.Rows)
	p, q, l := make([]float32, n), make([]float32, n), make([]int8, n)
	for k, name := range ds.Classes {
		cd := ClassDifference{Class: name}
		for i := range n {
			p[i], q[i], l[i] = x.Values[i*c+k], y.Values[i*c+k], truth[i*c+k]
			if l[i] > 0 {
				cd.Positives++
			}
		}
		if cd.Comparison, err = metric.CompareMAP(p, q, l, 1, r); err != nil {
			return fmt.Errorf("class %s: %w", name, err)
		}
		d.Classes = append(d.Classes, cd)
	}
	slices.SortStableFunc(d.Classes, func(a, b ClassDifference) int {
		switch p, q := math.Abs(a.Difference.Value), math.Abs(b.Difference.Value); {
		case p > q:
			return -1
		case p < q:
			return 1
		}
		return 0
	})
	return nil
}

// Write prints the difference for a terminal; at most classes rows of classes, 0: all.
func (d *Difference) Write(w io.Writer, classes int) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\tA  %s\tB  %s\n", d.A, d.B)
	for _, s := range d.Settings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Key, shorten(s.A), shorten(s.B))
	}
	if len(d.Settings) == 0 {
		fmt.Fprintln(t, "settings\tequal\tequal")
	}
	for _, s := range d.Environment {
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Key, shorten(s.A), shorten(s.B))
	}
	for _, m := range []struct {
		name  string
		value func(train.EpochRecord) (float64, bool)
		text  func(train.EpochRecord) string
	}{
		{"validation", func(e train.EpochRecord) (float64, bool) { return e.ValMAP, !e.NoVal }, train.EpochRecord.Val},
		{"test", func(e train.EpochRecord) (float64, bool) { return e.TestMAP, !e.NoTest }, train.EpochRecord.Test},
	} {
		low, high := math.Inf(1), math.Inf(-1)
		for _, e := range slices.Concat(d.EpochsA, d.EpochsB) {
			if v, ok := m.value(e); ok {
				low, high = min(low, v), max(high, v)
			}
		}
		if low > high {
			fmt.Fprintf(t, "%s mAP\tn/a\tn/a\n", m.name)
			continue
		}
		fmt.Fprintf(t, "%s mAP by epoch\t%s\t%s\t%.2f … %.2f %%\n", m.name, sparkline(d.EpochsA, low, high, m.value),
			sparkline(d.EpochsB, low, high, m.value), low, high)
		fmt.Fprintf(t, "of the best epoch\t%s\t%s\n", withPercent(m.text(d.BestA)), withPercent(m.text(d.BestB)))
	}
	fmt.Fprintf(t, "best epoch\t%d of %d\t%d of %d\n", d.BestA.Epoch, len(d.EpochsA), d.BestB.Epoch, len(d.EpochsB))
	if err := t.Flush(); err != nil {
		return err
	}
	if d.WhyNot != "" {
		_, err := fmt.Fprintf(w, "\nThe scores are not compared: %s.\n", d.WhyNot)
		return err
	}
	fmt.Fprintf(w, "\nB − A %+.2f points, 95 %% interval %+.2f … %+.2f, p %.3f (paired bootstrap over the test images)\n\n",
		d.MAP.Difference.Value, d.MAP.Difference.Low, d.MAP.Difference.High, d.MAP.P)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "class\tpositives\tAP A\tAP B\tB − A\t95 % interval\t")
	shown := d.Classes
	if classes > 0 && classes < len(shown) {
		shown = shown[:classes]
	}
	for _, c := range shown {
		mark := ""
		if c.Difference.Low > 0 || c.Difference.High < 0 {
			mark = "clear"
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%+.2f\t%+.2f … %+.2f\t%s\n", c.Class, c.Positives, c.A, c.B, c.Difference.Value, c.Difference.Low, c.Difference.High, mark)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if rest := len(d.Classes) - len(shown); rest > 0 {
		_, err := fmt.Fprintf(w, "… and %d classes that changed less (--classes 0 shows all)\n", rest)
		return err
	}
	return nil
}

// shorten keeps a value readable in a column: hashes and long lists are cut.
func shorten(s string) string {
	if s == "" {
		return "–"
	}
	if r := []rune(s); len(r) > 44 {
		return string(r[:43]) + "…"
	}
	return s
}

// withPercent puts percent behind a score that there is.
func withPercent(score string) string {
	if score == "n/a" {
		return score
	}
	return score + " %"
}

// sparkline draws a metric over the epochs between low and high, a blank where an epoch has none; long runs are drawn
// every few epochs.
func sparkline(epochs []train.EpochRecord, low, high float64, value func(train.EpochRecord) (float64, bool)) string {
	const marks, width = "▁▂▃▄▅▆▇█", 30
	m := []rune(marks)
	var b strings.Builder
	for i := range min(len(epochs), width) {
		v, ok := value(epochs[i*len(epochs)/min(len(epochs), width)])
		if !ok {
			b.WriteByte(' ')
			continue
		}
		at := 0.0
		if high > low {
			at = (v - low) / (high - low)
		}
		b.WriteRune(m[min(int(at*float64(len(m))), len(m)-1)])
	}
	return b.String()
}
