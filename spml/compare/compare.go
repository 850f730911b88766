// Package compare trains several methods with several seeds on one data set and makes a table that can be shown: mean
// and standard deviation, the difference to the first method with a paired bootstrap over images, and what each row
// cost.
//
// Runs lie in a folder of their own each; what is done is not done again, what was stopped goes on. Frozen features are
// computed once and decoded images are shared. A point of a sweep is a row like a method.
//
// Run keeps several OS threads busy where runs are small; it may be called side by side with different folders.
// Functions return errors.
package compare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/internal/onewriter"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Variant is a row: settings on top of the common ones. A parameter of the loss is params.NAME; nil takes a common
// setting out.
type Variant struct {
	Name string
	Set  map[string]any
	// First are settings on top of the row's own of a first stage, a run of its own (NAME-first) whose weights and label
	// estimates the row starts from (Config.Init), such as ROLE's LinearInit; nil: none.
	First map[string]any
}

// Over gives the common settings with the variant's on top; neither map is changed.
func (v Variant) Over(common map[string]any) map[string]any {
	m, params := maps.Clone(common), map[string]any{}
	if p, ok := m["params"].(map[string]any); ok {
		maps.Copy(params, p)
	}
	for k, x := range v.Set {
		if name, ok := strings.CutPrefix(k, "params."); ok {
			params[name] = x
		} else if x == nil {
			delete(m, k)
		} else {
			m[k] = x
		}
	}
	m["params"] = params
	return m
}

// Options say what is compared.
type Options struct {
	Settings map[string]any // common settings, keys of package train
	Variants []Variant      // the first is what the others are compared with
	Seeds    []uint32
	Dir      string // folder of the runs
	Jobs     int    // runs at once; 0: as many as cores on features, else 1
	// Replicates of the bootstrap; 0: 1000, or 200 where the scores are many.
	Replicates int
	// Note tells of finished runs; it may come from several goroutines, one at a time.
	Note func(text string)
	// Watch, if not nil, is called when a run begins, by its row and seed, and gives the run's events and a function that
	// is called when it ends. Several runs may be at work at once, each on a goroutine of its own.
	Watch func(name string, seed uint32) (ev train.Events, end func())
	// ValFirst puts validation mAP before test mAP and marks the highest: the rows are points to choose one of.
	ValFirst bool

	what     string // the rows are; "" = methods
	features string // folder of the common features; "" = Dir
}

// StoppedError says that a comparison ended early; called again with the same options it goes on where it was.
type StoppedError struct {
	Done, Total int
	cause       error
}

func (e *StoppedError) Error() string {
	why := e.cause
	if s := (*train.StoppedError)(nil); errors.As(why, &s) {
		why = s.Cause
	}
	return fmt.Sprintf("stopped (%v): %d of %d runs are done and kept; give the same command again to go on, also with a run that was stopped", why, e.Done, e.Total)
}

func (e *StoppedError) Unwrap() error { return e.cause }

// Methods makes a variant of each method. A name may carry parameters of the loss and settings of the run:
// "role:k=1.2", "lac:stages=1,queue_size=-1"; the row is then called as it was written.
func Methods(names []string) ([]Variant, error) {
	var out []Variant
	for _, n := range names {
		id, rest, _ := strings.Cut(n, ":")
		m, err := method.Lookup(id)
		if err != nil {
			return nil, &config.Error{Msg: strings.TrimPrefix(err.Error(), "loss: ")}
		}
		v := Variant{Name: m.ID, Set: map[string]any{"method": m.ID}}
		if rest != "" {
			v.Name += ":" + rest
		}
		for _, one := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' }) {
			key, text, _ := strings.Cut(one, "=")
			if slices.ContainsFunc(m.Loss.Params, func(p loss.Param) bool { return p.Name == key }) {
				p, err := config.Parse("params", one)
				if err != nil {
					return nil, err
				}
				for k, x := range p.(map[string]any) {
					v.Set["params."+k] = x
				}
				continue
			}
			if v.Set[config.Today(key)], err = config.Parse(key, text); err != nil {
				return nil, &config.Error{
					Msg: fmt.Sprintf("%s: %s is neither a parameter of %s nor a setting of a run: %v", n, key, m.ID, err),
				}
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// AllMethods are the ids that can be trained on features without further files; training rows without full labels leave
// out those that need them.
func AllMethods(full bool) []string {
	var ids []string
	for _, e := range loss.Entries() {
		if method.Of(e).Lacks() == "" && e.Needs&(loss.PseudoLabels|loss.StrongView) == 0 &&
			(full || e.Needs&loss.Full == 0) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// Row is a line of the table. mAP are percents.
type Row struct {
	Name       string             `json:"name"`
	Seeds      []uint32           `json:"seeds"`
	Best       []float64          `json:"test_map_best_epoch"` // per seed
	Last       []float64          `json:"test_map_last_epoch"`
	BestMean   float64            `json:"best_mean"`
	BestSD     float64            `json:"best_sd"` // of the sample; 0 for one seed
	LastMean   float64            `json:"last_mean"`
	LastSD     float64            `json:"last_sd"`
	Epochs     []int              `json:"best_epochs"`
	Seconds    float64            `json:"seconds"`              // of training and scoring, mean of a run
	Difference *metric.Comparison `json:"difference,omitempty"` // to the first row, over the seeds that both have
	Settings   map[string]any     `json:"settings"`
	// NoTest: no test row has full labels, so there is no test mAP above and the difference is nil. ValMean is what there
	// is then.
	NoTest  bool      `json:"no_test,omitempty"`
	Val     []float64 `json:"val_map_best_epoch,omitempty"` // validation mAP per seed; empty where nothing was validated
	ValMean float64   `json:"val_mean,omitempty"`
	ValSD   float64   `json:"val_sd,omitempty"`
	// LeftOut says why the row was not trained, "" where it was; it then has no numbers.
	LeftOut   string     `json:"left_out,omitempty"`
	Selection *Selection `json:"selection,omitempty"` // how Tune chose its settings
}

// MarshalJSON leaves out the numbers that a row does not have: a 0 would be a score.
func (r Row) MarshalJSON() ([]byte, error) {
	type all Row
	if r.LeftOut == "" && !r.NoTest {
		return json.Marshal(all(r))
	}
	if r.LeftOut == "" {
		return json.Marshal(struct {
			all
			Best     *float64 `json:"test_map_best_epoch,omitempty"` // these hide those of all, and are not written
			Last     *float64 `json:"test_map_last_epoch,omitempty"`
			BestMean *float64 `json:"best_mean,omitempty"`
			BestSD   *float64 `json:"best_sd,omitempty"`
			LastMean *float64 `json:"last_mean,omitempty"`
			LastSD   *float64 `json:"last_sd,omitempty"`
		}{all: all(r)})
	}
	return json.Marshal(struct {
		Name     string         `json:"name"`
		LeftOut  string         `json:"left_out"`
		Settings map[string]any `json:"settings"`
	}{r.Name, r.LeftOut, r.Settings})
}

// Table is what Run makes.
type Table struct {
	Data    string `json:"data"`
	Test    int    `json:"test_images"`
	Classes int    `json:"classes"`
	Mode    string `json:"mode"`
	Rows    []Row  `json:"rows"`
	Hidden  bool   `json:"test_hidden,omitempty"` // the runs left the test part alone
	// ValFirst: see Options.
	ValFirst bool    `json:"validation_first,omitempty"`
	Budget   *Budget `json:"budget,omitempty"` // of Tune
	// Beside are numbers from elsewhere; see Lay.
	Beside []Number `json:"beside,omitempty"`
}

// job is one run.
type job struct {
	variant, seed int
	config        config.Config
	first         *job // the first of two stages, which rows may share; it may be a row itself
	mu            sync.Mutex
	result        *train.Result
	trained       bool // here, not before
}

// Run trains what is missing and makes the table. Every row is checked before the first run; one that cannot be trained
// is left out and stands at the table's end with the reason (Row.LeftOut). A stopped context ends it; called again it
// goes on.
func Run(ctx context.Context, o Options) (_ *Table, err error) {
	defer caught.Recover(&err)
	if len(o.Variants) == 0 || len(o.Seeds) == 0 || o.Dir == "" {
		return nil, &config.Error{Msg: "a comparison wants methods, seeds and a folder for its runs"}
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := onewriter.Take(filepath.Join(o.Dir, ".lock"), o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if !lock.Works() {
		o.note("%s lies on a file system without locks: nothing keeps a second comparison from writing there", o.Dir)
	}
	left, err := o.Fit()
	if err != nil {
		return nil, err
	}
	for _, r := range left {
		o.note("%s is left out: %s", r.Name, r.LeftOut)
	}
	jobs, err := o.jobs()
	if err != nil {
		return nil, err
	}
	first := jobs[0].config
	if first.Model.Mode == config.Frozen && len(first.Model.Features) == 0 {
		if err := o.shareFeatures(ctx, jobs); err != nil {
			return nil, err
		}
	}
	var images *data.ImageCache
	if first.Model.Mode != config.Frozen {
		images = data.NewImageCache(int64(first.Data.Cache.MB) << 20)
	}
	if err := o.train(ctx, jobs, images); err != nil {
		return nil, err
	}
	t, err := o.table(ctx, jobs)
	if err != nil {
		return nil, err
	}
	t.Rows = append(t.Rows, left...)
	return t, nil
}

// Resolved is a row before it is trained: the settings of its run with the first seed, and of that run's first stage
// where it has two.
type Resolved struct {
	Name   string
	Config config.Config
	First  *config.Config
	// LeftOut says why it cannot be trained, by its settings alone; it then has no Config, and stands at the end.
	LeftOut string
}

// Resolve says what Run would train, row by row. It reads no data and writes nothing.
func (o Options) Resolve() ([]Resolved, error) {
	left, err := o.fit(false)
	if err != nil {
		return nil, err
	}
	jobs, err := o.jobs()
	if err != nil {
		return nil, err
	}
	var out []Resolved
	for i, v := range o.Variants {
		j := jobs[i*len(o.Seeds)]
		r := Resolved{Name: v.Name, Config: j.config}
		if j.first != nil {
			r.First = &j.first.config
		}
		out = append(out, r)
	}
	for _, r := range left {
		out = append(out, Resolved{Name: r.Name, LeftOut: r.LeftOut})
	}
	return out, nil
}

func (o *Options) jobs() ([]*job, error) {
	var jobs []*job
	names := map[string]bool{}
	for i, v := range o.Variants {
		if names[v.Name] {
			return nil, &config.Error{Msg: fmt.Sprintf("%s is named twice", v.Name)}
		}
		names[v.Name] = true
		for j := range o.Seeds {
			one, err := o.job(i, j)
			if err != nil {
				return nil, err
			}
			if c := one.config; len(jobs) > 0 &&
				(c.Data.Path != jobs[0].config.Data.Path || c.Data.Options.String() != jobs[0].config.Data.Options.String()) {
				return nil, &config.Error{
					Msg: fmt.Sprintf(
						"%s is to train on %s %s, %s on %s %s: scores on two data sets do not compare",
						o.Variants[0].Name,
						jobs[0].config.Data.Path,
						jobs[0].config.Data.Options,
						v.Name,
						c.Data.Path,
						c.Data.Options,
					),
				}
			}
			jobs = append(jobs, one)
		}
	}
	return jobs, o.shareStages(jobs)
}

// job is the run of a variant with a seed, both by their places.
func (o *Options) job(i, j int) (*job, error) {
	v, seed := o.Variants[i], o.Seeds[j]
	m := v.Over(o.Settings)
	m["seed"] = int64(seed)
	m["run"] = filepath.Join(o.Dir, v.Name, fmt.Sprintf("seed-%d", seed))
	one := &job{variant: i, seed: j}
	var err error
	if v.First != nil {
		f := Variant{Set: v.First}.Over(m)
		f["run"] = filepath.Join(o.Dir, v.Name+"-first", fmt.Sprintf("seed-%d", seed))
		one.first = &job{variant: i, seed: j}
		if one.first.config, err = resolve(f); err != nil {
			return nil, fmt.Errorf("%s, first stage: %w", v.Name, err)
		}
		m["init"] = f["run"]
	}
	if one.config, err = resolve(m); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	return one, nil
}

// resolve makes the configuration of a run.
func resolve(m map[string]any) (config.Config, error) {
	c, err := config.FromSettings(m)
	if err == nil {
		c, err = c.Resolve()
	}
	if err == nil && c.Model.Mode == config.Frozen && m["save_every"] == nil {
		c.Run.SaveEvery = config.SaveEvery{Off: true} // such a run takes seconds
	}
	return c, err
}

// shareStages gives runs of two stages whose first stage has the same settings one run for it: a row of the table where
// there is one.
func (o *Options) shareStages(jobs []*job) error {
	byWhat := map[string]*job{}
	what := func(c config.Config) string {
		m := c.AsSettings()
		delete(m, "run")
		return fmt.Sprint(m)
	}
	for _, j := range jobs {
		if j.config.Stages.Count < 2 {
			byWhat[what(j.config)] = j
		}
	}
	for _, j := range jobs {
		if j.config.Stages.Count < 2 || j.config.Model.Init != "" || j.config.Stages.First != "" {
			continue
		}
		c, err := j.config.FirstStage()
		if err != nil {
			return err
		}
		if j.first = byWhat[what(c)]; j.first == nil {
			j.first = &job{variant: j.variant, seed: j.seed, config: c}
			byWhat[what(c)] = j.first
		}
		j.config.Stages.First = j.first.config.Run.Dir
	}
	return nil
}

func (o *Options) note(format string, a ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, a...))
	}
}

// shareFeatures computes the features once. A file that is there belongs to the same backbone, weights and size, by its
// name.
func (o *Options) shareFeatures(ctx context.Context, jobs []*job) error {
	c := jobs[0].config
	sum, err := fileHash(c.Model.Weights)
	if err != nil {
		return err
	}
	path := filepath.Join(cmp.Or(o.features, o.Dir),
		fmt.Sprintf("features-%s-%.12s-%d.npy", c.Model.Backbone, sum, c.Data.ImageSize))
	if _, err := os.Stat(strings.TrimSuffix(path, ".npy") + ".txt"); err != nil { // written after the .npy file
		o.note("computing the features of every image once: %s", path)
		if err := network.ExtractFeatures(ctx, c, path, train.Events{}); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		j.config.Model.Features = config.Paths{path}
	}
	return nil
}

func (o *Options) train(ctx context.Context, jobs []*job, images *data.ImageCache) error {
	n := o.Jobs
	if n < 1 {
		n = 1
		if jobs[0].config.Model.Mode == config.Frozen {
			n = runtime.NumCPU()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *job)
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		first error
		done  int
		fresh int // trained here
		start = time.Now()
	)
	todoRuns := 0
	for _, j := range jobs {
		if _, ok := train.Finished(j.config); !ok {
			todoRuns++
		}
	}
	o.note("%d %s × %d seeds = %d runs, %d of them done before", len(o.Variants), cmp.Or(o.what, "methods"),
		len(o.Seeds), len(jobs), len(jobs)-todoRuns)
	for range n {
		wait.Go(func() {
			for j := range todo {
				begun := time.Now()
				err := caught.Do(func() error { return j.run(ctx, o, images) })
				mu.Lock()
				if err == nil {
					done++
					err = caught.Do(func() error { // Note is a caller's
						left := ""
						if j.trained {
							if fresh++; fresh < todoRuns {
								left = fmt.Sprintf(", about %v left", (time.Since(start) / time.Duration(fresh) * time.Duration(todoRuns-fresh)).Round(time.Second))
							}
						}
						o.note("%d/%d  %s seed %d: val mAP %s, test mAP %s (%v%s)", done, len(jobs), o.Variants[j.variant].Name, o.Seeds[j.seed], j.result.Best.Val(), j.result.Best.Test(), time.Since(begun).Round(100*time.Millisecond), left)
						return nil
					})
				}
				if err != nil && first == nil {
					first = fmt.Errorf("%s, seed %d: %w", o.Variants[j.variant].Name, o.Seeds[j.seed], err)
					cancel(context.Cause(ctx))
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, j := range jobs {
		select {
		case todo <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(todo)
	wait.Wait()
	if first == nil {
		first = context.Cause(ctx)
	}
	var stopped *train.StoppedError
	if first != nil && (errors.As(first, &stopped) || ctx.Err() != nil && errors.Is(first, context.Cause(ctx))) {
		return &StoppedError{Done: done, Total: len(jobs), cause: first}
	}
	return first
}

// run does a job, or takes its result where it is done.
func (j *job) run(ctx context.Context, o *Options, images *data.ImageCache) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first != nil {
		if err := j.first.run(ctx, o, images); err != nil {
			return fmt.Errorf("stage 1: %w", err)
		}
	}
	if r, ok := train.Finished(j.config); ok {
		j.result = r
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	j.trained = true
	with := train.RunOptions{Images: images}
	if o.Watch != nil {
		var end func()
		with.Events, end = o.Watch(o.Variants[j.variant].Name, o.Seeds[j.seed])
		defer end()
	}
	if rundir.Exists(j.config.Run.Dir) {
		j.result, err = train.Resume(ctx, j.config.Run.Dir, func(c *config.Config) { *c = j.config }, with)
		var setting *config.Error
		if !errors.As(err, &setting) {
			return err
		}
		return fmt.Errorf("%w; remove %s to train it anew", err, j.config.Run.Dir)
	}
	j.result, err = train.Run(ctx, j.config, with)
	return err
}

// table reads the runs' scores and compares.
func (o *Options) table(ctx context.Context, jobs []*job) (*Table, error) {
	first := jobs[0].config
	ds, err := first.Data.Open()
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	t := &Table{
		Data: ds.Name, Test: len(ds.Rows(data.Test)), Classes: ds.C(), Mode: first.Model.Mode, Hidden: first.Data.NoTest,
		ValFirst: o.ValFirst,
	}
	var truth [][]int8
	if !jobs[0].result.Best.NoTest {
		if truth, err = o.truth(jobs); err != nil {
			return nil, err
		}
	}
	scores := make([][]*train.Scores, len(o.Variants))
	for i, v := range o.Variants {
		r := Row{Name: v.Name, Seeds: o.Seeds, Settings: v.Set}
		for _, j := range jobs {
			if j.variant != i {
				continue
			}
			r.add(j.result)
			for k := j; k != nil; k = k.first { // a shared first stage counts in each row
				for _, e := range k.result.Epochs {
					r.Seconds += e.Seconds / float64(len(o.Seeds))
				}
			}
			if r.NoTest {
				continue
			}
			s, err := rundir.ReadTestScores(j.config.Run.Dir)
			if err != nil {
				return nil, fmt.Errorf("the scores of %s: %w", j.config.Run.Dir, err)
			}
			scores[i] = append(scores[i], s)
		}
		r.means()
		if i > 0 && !r.NoTest {
			c, err := o.paired(truth, ds.C(), scores[0], scores[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Name, err)
			}
			r.Difference = c
		}
		t.Rows = append(t.Rows, r)
	}
	if t.noTest() {
		return t, nil
	}
	r, err := o.zeroShot(ctx, jobs)
	if r != nil {
		t.Rows = append(t.Rows, *r)
	}
	return t, err
}

// ZeroShotRow is the name of the row with the image-text model's own scores.
const ZeroShotRow = "clip zero-shot"

// zeroShot is a row with the mAP of the image-text model that makes the pseudo-labels, nil where no run has one.
func (o *Options) zeroShot(ctx context.Context, jobs []*job) (*Row, error) {
	r := &Row{Name: ZeroShotRow}
	path := filepath.Join(o.Dir, "zero-shot.json")
	known := map[string]float64{}
	if b, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(b, &known); err != nil {
			return nil, fmt.Errorf("%s: %w; delete it", path, err)
		}
	}
	for j, seed := range o.Seeds {
		i := slices.IndexFunc(
			jobs,
			func(x *job) bool { return x.seed == j && x.config.Pseudo.Clip != "" && x.config.Pseudo.File == "" },
		)
		if i < 0 {
			return nil, nil
		}
		c := jobs[i].config
		key := fmt.Sprint(c.Pseudo.Clip, " ", c.Pseudo.Precision, " ", c.Data.Path, " ", c.Data.Options)
		if c.Pseudo.ClassNames != "" {
			key += " " + c.Pseudo.ClassNames
		}
		if c.Data.Path == config.Shapes {
			key += fmt.Sprint(" ", *c.Data.Seed)
		}
		v, ok := known[key]
		if !ok {
			o.note("scoring the test part by %s alone", c.Pseudo.Clip)
			var err error
			if _, v, err = zeroShot(ctx, c); err != nil {
				return nil, fmt.Errorf("zero-shot scores: %w", err)
			}
			known[key] = v
			b, err := json.MarshalIndent(known, "", "  ")
			if err == nil {
				err = atomicfile.WriteBytes(path, 0o644, append(b, '\n'))
			}
			if err != nil {
				return nil, err
			}
		}
		r.Seeds, r.Best, r.Last, r.Epochs = append(r.Seeds, seed), append(r.Best, v), append(r.Last, v), append(r.Epochs, 0)
		r.Settings = map[string]any{"clip": c.Pseudo.Clip}
	}
	r.means()
	return r, nil
}

// add puts a run's scores into its row.
func (r *Row) add(res *train.Result) {
	best, last := res.Best, res.Epochs[len(res.Epochs)-1]
	r.Epochs = append(r.Epochs, best.Epoch)
	if r.NoTest = best.NoTest; !r.NoTest {
		r.Best, r.Last = append(r.Best, best.TestMAP), append(r.Last, last.TestMAP)
	}
	if !best.NoVal {
		r.Val = append(r.Val, best.ValMAP)
	}
}

// means fills in the means over seeds.
func (r *Row) means() {
	r.BestMean, r.BestSD = meanSD(r.Best)
	r.LastMean, r.LastSD = meanSD(r.Last)
	r.ValMean, r.ValSD = meanSD(r.Val)
}

// noTest says whether the rows have no test mAP, because no test row has full labels: those of one data set have it
// together.
func (t *Table) noTest() bool { return len(t.Rows) > 0 && t.Rows[0].NoTest }

func meanSD(x []float64) (mean, sd float64) {
	switch len(x) {
	case 0:
		return 0, 0
	case 1:
		return x[0], 0
	}
	return stat.MeanStdDev(x, nil)
}

// truth gives the labels [N, C] of each seed's test images: drawn data have other pictures for each seed.
func (o *Options) truth(jobs []*job) ([][]int8, error) {
	out := make([][]int8, len(o.Seeds))
	for _, j := range jobs[:len(o.Seeds)] { // those of the first row
		ds, err := j.config.Data.Open()
		if err != nil {
			return nil, err
		}
		s, err := rundir.ReadTestScores(j.config.Run.Dir)
		if err == nil {
			out[j.seed] = ds.Gather(ds.Labels, s.Rows)
		}
		if err := errors.Join(err, ds.Close()); err != nil {
			return nil, fmt.Errorf("the scores of %s: %w", j.config.Run.Dir, err)
		}
	}
	return out, nil
}

// paired compares two rows on common resamples of the test images. The seeds' scores stand side by side as columns,
// whose mean average precision is the mean over seeds of the mAP.
func (o *Options) paired(truth [][]int8, c int, a, b []*train.Scores) (*metric.Comparison, error) {
	rows := a[0].Rows
	width := c * len(a)
	labels := make([]int8, 0, len(rows)*width)
	for i := range rows {
		for _, y := range truth {
			labels = append(labels, y[i*c:(i+1)*c]...)
		}
	}
	wide := func(s []*train.Scores) ([]float32, error) {
		out := make([]float32, 0, len(rows)*width)
		for i := range rows {
			for _, x := range s {
				if !slices.Equal(x.Rows, rows) {
					return nil, fmt.Errorf("%w: the runs scored other images", train.ErrData)
				}
				out = append(out, x.Values[i*c:(i+1)*c]...)
			}
		}
		return out, nil
	}
	x, err := wide(a)
	if err != nil {
		return nil, err
	}
	y, err := wide(b)
	if err != nil {
		return nil, err
	}
	n := o.Replicates
	if n == 0 && len(x) > 1<<20 {
		n = 200
	}
	r, err := metric.CompareMAP(x, y, labels, width, metric.Resampling{Replicates: n})
	return &r, err
}
