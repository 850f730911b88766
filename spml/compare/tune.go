package compare

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

// Tuning says how the rows of a comparison are tuned before they are compared: on validation alone, with seeds that no
// row of the table has.
type Tuning struct {
	Grids []Grid   // one for each of Options.Variants
	Seeds []uint32 // of the tuning runs
}

// Grid are the settings that a row is tried with, on top of its own, which are always tried too. Stages are searched
// one after the other, each on top of the best so far.
type Grid struct {
	Source string // where it comes from, in words
	Stages [][]map[string]any
}

// Trial is a setting that was tried.
type Trial struct {
	Settings map[string]any `json:"settings"` // on top of the row's own
	Val      []float64      `json:"val_map"`  // of the best epoch, percent, for each tuning seed
	ValMean  float64        `json:"val_mean"`
	ValSD    float64        `json:"val_sd"`
	LeftOut  string         `json:"left_out,omitempty"` // why it was not trained
}

// Selection says how a row's settings were chosen.
type Selection struct {
	Source  string         `json:"source"`
	Tried   int            `json:"tried"`    // settings that were trained, the row's own among them
	Chosen  map[string]any `json:"chosen"`   // on top of the row's own; empty: those won
	ValMean float64        `json:"val_mean"` // of the chosen ones over the tuning seeds, percent
	ValSD   float64        `json:"val_sd"`
	OwnVal  float64        `json:"own_val_mean"` // of the row's own settings
	Seconds float64        `json:"seconds"`      // of training and scoring, all trials
}

// Budget is what a tuned comparison took.
type Budget struct {
	Seeds       []uint32 `json:"seeds"`    // of the tuning runs
	Settings    int      `json:"settings"` // tried, of all rows
	Runs        int      `json:"runs"`
	Seconds     float64  `json:"seconds"`
	TestRuns    int      `json:"test_runs"`
	TestSeconds float64  `json:"test_seconds"`
}

// Tune chooses the settings of every row by validation mAP and then compares the rows on test, once. While it chooses,
// test rows are neither scored nor written (train.Config.NoTest). It may be stopped and called again as Run may. The
// runs of the search lie in the folder tuning of Options.Dir, with selection.json: what was tried and chosen. A row
// whose test score is known cannot be searched again in that folder with another grid or other seeds.
func Tune(ctx context.Context, o Options, g Tuning) (_ *Table, err error) {
	defer caught.Recover(&err)
	s, err := newSearch(o, g)
	if err != nil {
		return nil, err
	}
	settings, runs := g.Budget(o)
	o.note("budget: up to %d settings × %d seeds = %d runs on validation, then %d rows × %d seeds = %d runs on test",
		settings, len(g.Seeds), runs, len(o.Variants), len(o.Seeds), len(o.Variants)*len(o.Seeds))
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	final := o
	final.features, final.Variants = s.o.Dir, nil
	for _, r := range s.rows {
		v := r.variant
		v.Set = over(v.Set, r.best().Settings)
		final.Variants = append(final.Variants, v)
	}
	t, err := Run(ctx, final)
	if err != nil {
		return nil, err
	}
	s.report(t)
	b := t.Budget
	o.note("spent: %d settings, %d runs (%s of training) on validation; %d runs (%s) on test", b.Settings, b.Runs,
		seconds(b.Seconds), b.TestRuns, seconds(b.TestSeconds))
	return t, nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// Budget counts what Tune would train at most: settings of all rows, and runs of the search.
func (g Tuning) Budget(o Options) (settings, runs int) {
	for i := range o.Variants {
		settings++
		for _, stage := range g.Grids[i].Stages {
			settings += len(stage)
		}
	}
	return settings, settings * len(g.Seeds)
}

// Options are those of the runs of the search, with every setting as a row; stages after a row's first are shown on top
// of its own settings, not of the best so far, which is not known yet.
func (g Tuning) Options(o Options) (Options, error) {
	s, err := newSearch(o, g)
	if err != nil {
		return o, err
	}
	for k := range s.stages() {
		s.o.Variants = append(s.o.Variants, s.variants(k)...)
	}
	return s.o, nil
}

// search is a tuning in work.
type search struct {
	o    Options // of its runs
	rows []*tuned
}

// tuned is a row in search of its settings.
type tuned struct {
	variant Variant
	grid    Grid
	trials  []Trial
	known   map[string]int // what a trial's run resolves to: its place
	seconds float64
}

func newSearch(o Options, g Tuning) (*search, error) {
	switch {
	case len(g.Grids) != len(o.Variants):
		return nil, &config.Error{Msg: fmt.Sprintf("%d grids for %d methods", len(g.Grids), len(o.Variants))}
	case len(g.Seeds) == 0:
		return nil, &config.Error{Msg: "tuning wants seeds"}
	}
	for _, seed := range g.Seeds {
		if slices.Contains(o.Seeds, seed) {
			return nil, &config.Error{Msg: fmt.Sprintf("seed %d is to choose settings and to test them: the test "+
				"wants seeds that the search has not seen", seed)}
		}
	}
	s := &search{o: o}
	s.o.Seeds, s.o.Variants, s.o.what = slices.Clone(g.Seeds), nil, "settings"
	s.o.Settings = over(o.Settings, map[string]any{"no_test": true})
	if o.Dir != "" {
		s.o.Dir = filepath.Join(o.Dir, "tuning")
	}
	for i, v := range o.Variants {
		s.rows = append(s.rows, &tuned{variant: v, grid: g.Grids[i], known: map[string]int{}})
	}
	return s, nil
}

// stages is the largest number of stages of a row; its own settings alone are one.
func (s *search) stages() int {
	n := 1
	for _, r := range s.rows {
		n = max(n, len(r.grid.Stages))
	}
	return n
}

func (s *search) run(ctx context.Context) error {
	path := filepath.Join(s.o.Dir, "selection.json")
	before, err := s.before(path)
	if err != nil {
		return err
	}
	if err := s.canSelect(); err != nil {
		return err
	}
	for k := range s.stages() {
		if err := s.stage(ctx, k); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(s.after(before), "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, 0o644, append(b, '\n'))
}

// canSelect says where nothing could be chosen by.
func (s *search) canSelect() error {
	if s.o.Dir == "" {
		return &config.Error{Msg: "a comparison wants methods, seeds and a folder for its runs"}
	}
	for _, r := range s.rows {
		c, err := s.resolve(r.variant)
		if err != nil {
			continue // the row is left out, with the reason
		}
		ds, err := c.Data.Open()
		if err != nil {
			return err
		}
		none := len(ds.Rows(data.Val)) == 0
		if err := ds.Close(); err != nil {
			return err
		}
		if none {
			return &config.Error{Msg: fmt.Sprintf("%s has no validation rows, and tuning chooses by validation mAP: "+
				"give it a validation part, or leave out the tuning", ds.Name)}
		}
		return nil
	}
	return nil
}

func (s *search) resolve(v Variant) (config.Config, error) {
	o := s.o
	o.Variants = []Variant{v}
	j, err := o.job(0, 0)
	if err != nil {
		return config.Config{}, err
	}
	return j.config, nil
}

// variants are the rows of a stage: for each row of the table what it is tried with, without what was tried before.
func (s *search) variants(k int) []Variant {
	var out []Variant
	for _, r := range s.rows {
		base := map[string]any{}
		var points []map[string]any
		if k == 0 {
			points = append(points, base)
		} else if i := r.top(); i >= 0 {
			base = r.trials[i].Settings
		}
		if k < len(r.grid.Stages) {
			points = append(points, r.grid.Stages[k]...)
		}
		for _, p := range points {
			set := over(base, p)
			v := Variant{Name: trialName(r.variant.Name, set), Set: over(r.variant.Set, set), First: r.variant.First}
			key := v.Name
			if c, err := s.resolve(v); err == nil {
				key = same(c)
			}
			if _, ok := r.known[key]; ok {
				continue
			}
			r.known[key] = len(r.trials)
			r.trials = append(r.trials, Trial{Settings: set})
			out = append(out, v)
		}
	}
	return out
}

// over is base with the settings of top over its own; neither is changed.
func over(base, top map[string]any) map[string]any {
	m := map[string]any{}
	maps.Copy(m, base)
	maps.Copy(m, top)
	return m
}

// same is equal for settings of one run that come to the same.
func same(c config.Config) string {
	m := c.AsSettings()
	delete(m, "run")
	delete(m, "init")
	if values, err := c.LossValues(); err == nil {
		m["params"] = values
	}
	return fmt.Sprint(m)
}

// trialName is the name of a setting and of its folder.
func trialName(row string, set map[string]any) string {
	text := settingsText(set)
	if text == "" {
		return row
	}
	if text = strings.ReplaceAll(text, string(filepath.Separator), "-"); len(text) > 150 { // a file's name has 255 bytes
		text = fmt.Sprintf("%.100s %.6x", text, sha256.Sum256([]byte(text)))
	}
	return row + " " + text
}

// settingsText are settings in a line.
func settingsText(set map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		parts = append(parts, fmt.Sprintf("%s=%v", strings.TrimPrefix(k, "params."), set[k]))
	}
	return strings.Join(parts, " ")
}

// stage trains what a stage tries.
func (s *search) stage(ctx context.Context, k int) error {
	o := s.o
	o.Variants = s.variants(k)
	if len(o.Variants) == 0 {
		return nil
	}
	t, err := Run(ctx, o)
	if err != nil {
		return err
	}
	for _, r := range s.rows {
		for i := range r.trials {
			x := &r.trials[i]
			at := slices.IndexFunc(t.Rows, func(y Row) bool { return y.Name == trialName(r.variant.Name, x.Settings) })
			if at < 0 {
				continue // of an earlier stage
			}
			y := t.Rows[at]
			if x.LeftOut = y.LeftOut; x.LeftOut == "" && len(y.Val) < len(o.Seeds) {
				return &config.Error{Msg: fmt.Sprintf("%s: no validation row has labels to choose settings by", y.Name)}
			}
			x.Val, x.ValMean, x.ValSD = y.Val, y.ValMean, y.ValSD
			r.seconds += y.Seconds * float64(len(y.Seeds))
		}
	}
	return nil
}

// top is the place of the best trial so far, the first of equals, -1 where none could be trained.
func (r *tuned) top() int {
	best := -1
	for i, x := range r.trials {
		if x.LeftOut == "" && len(x.Val) > 0 && (best < 0 || x.ValMean > r.trials[best].ValMean) {
			best = i
		}
	}
	return best
}

// best is the trial that is chosen; the row's own settings where none could be trained.
func (r *tuned) best() Trial { return r.trials[max(r.top(), 0)] }

// report puts into the table how its rows were chosen.
func (s *search) report(t *Table) {
	t.Budget = &Budget{Seeds: s.o.Seeds}
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.LeftOut == "" {
			t.Budget.TestRuns += len(row.Seeds)
			t.Budget.TestSeconds += row.Seconds * float64(len(row.Seeds))
		}
		at := slices.IndexFunc(s.rows, func(r *tuned) bool { return r.variant.Name == row.Name })
		if at < 0 {
			continue // the image-text model's own scores
		}
		r := s.rows[at]
		n := 0
		for _, x := range r.trials {
			if x.LeftOut == "" {
				n++
			}
		}
		t.Budget.Settings += n
		t.Budget.Runs += n * len(s.o.Seeds)
		t.Budget.Seconds += r.seconds
		if row.LeftOut == "" && r.top() >= 0 {
			x := r.best()
			row.Selection = &Selection{
				Source: r.grid.Source, Tried: n, Chosen: x.Settings, ValMean: x.ValMean, ValSD: x.ValSD,
				OwnVal: r.trials[0].ValMean, Seconds: r.seconds,
			}
		}
	}
}

// selected is a row of selection.json.
type selected struct {
	Name   string             `json:"name"`
	Source string             `json:"source"`
	Seeds  []uint32           `json:"seeds"`
	Stages [][]map[string]any `json:"stages"`
	Trials []Trial            `json:"trials"`
	Chosen map[string]any     `json:"chosen"`
}

// before reads what an earlier call chose, and refuses to choose anew what has been tested.
func (s *search) before(path string) ([]selected, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var rows []selected
	if err == nil {
		err = json.Unmarshal(b, &rows)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", train.ErrData, path, err)
	}
	for _, x := range rows {
		for _, r := range s.rows {
			if r.variant.Name != x.Name {
				continue
			}
			y := selected{Seeds: s.o.Seeds, Stages: r.grid.Stages}
			was, err := json.Marshal(selected{Seeds: x.Seeds, Stages: x.Stages})
			is, err2 := json.Marshal(y)
			if err := cmp.Or(err, err2); err != nil {
				return nil, err
			}
			if !bytes.Equal(was, is) {
				return nil, &config.Error{Msg: fmt.Sprintf("%s: %s was tuned with another grid or other seeds, and its "+
					"test scores are known since; another search is another experiment: choose another --run", path, x.Name)}
			}
		}
	}
	return rows, nil
}

// after is what was chosen, with rows of earlier calls that this one does not have.
func (s *search) after(before []selected) []selected {
	var rows []selected
	for _, r := range s.rows {
		rows = append(rows, selected{Name: r.variant.Name, Source: r.grid.Source, Seeds: s.o.Seeds, Stages: r.grid.Stages,
			Trials: r.trials, Chosen: r.best().Settings})
	}
	for _, x := range before {
		if !slices.ContainsFunc(rows, func(y selected) bool { return x.Name == y.Name }) {
			rows = append(rows, x)
		}
	}
	return rows
}
