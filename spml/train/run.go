package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/torch"
)

// ErrNotFinite is wrapped by the error of a run whose loss became NaN or infinite.
var ErrNotFinite = errors.New("the loss is not finite")

// ErrData is wrapped by errors that a data set's contents cause, where no more specific type says so.
var ErrData = fault.ErrData

// ShapesName is the data set of drawn pictures that needs no files.
const ShapesName = "shapes"

// Sizes of the parts of shapes.
const (
	shapesTrain = 2000
	shapesVal   = 500
	shapesTest  = 1000
)

// Result is what a run ended with.
type Result struct {
	Best   EpochRecord   `json:"best"`   // the epoch with the highest validation mAP; the last one where there is no validation part
	Epochs []EpochRecord `json:"epochs"` // all
	Broken []data.Broken `json:"-"`      // images that could not be read
	// Stopped says why the run ended: all epochs, or a stop rule.
	Stopped string `json:"stopped"`
}

// Run trains by a configuration. Cancelling ctx, its deadline, or MaxSteps ends it after the current step, with a
// checkpoint where there is a run directory; the error is then a *StoppedError.
func Run(ctx context.Context, c Config, ev Events) (_ *Result, err error) {
	defer caught.Recover(&err)
	if c, err = c.prepare(); err != nil {
		return nil, err
	}
	return guarded(ctx, c, ev, false)
}

// Resume goes on with the run of a directory from its newest sound checkpoint, or from the start where it has none. A
// run that is done gives its result again. change, if not nil, may raise budgets, MaxSteps and SaveEvery, KeepLast,
// KeepBest, and name another Device, on which the last bits differ; other changes are an error. More Epochs make a run
// longer, also one that is done, where nothing it did depends on their number: it then equals, to the bit, a run that
// had them from the start.
func Resume(ctx context.Context, dir string, change func(*Config), ev Events) (_ *Result, err error) {
	defer caught.Recover(&err)
	c, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}
	c.Run = dir
	c.MaxSteps = 0
	if c, err = c.prepare(); err != nil {
		return nil, err
	}
	if change != nil {
		old := c
		change(&c)
		if c, err = c.prepare(); err != nil {
			return nil, err
		}
		if c.Epochs > old.Epochs {
			rest := c
			rest.Epochs = old.Epochs
			if differences(allowed(old, rest), rest) == "" {
				if err := old.canLengthen(dir, c.Epochs); err != nil {
					return nil, err
				}
				old.Epochs = c.Epochs
			}
		}
		if d := differences(allowed(old, c), c); d != "" {
			return nil, &ConfigError{Msg: fmt.Sprintf("%s cannot go on with other settings (%s); start another run", dir, d)}
		}
	}
	return guarded(ctx, c, ev, true)
}

// allowed is old with what a run that goes on may change as c has it.
func allowed(old, c Config) Config {
	old.MaxSteps, old.SaveEvery, old.KeepLast, old.KeepBest, old.Device = c.MaxSteps, c.SaveEvery, c.KeepLast, c.KeepBest, c.Device
	return old
}

// Finished gives the result of a run that is done with exactly these settings, else false.
func Finished(c Config) (*Result, bool) {
	c, err := c.prepare()
	if err != nil {
		return nil, false
	}
	old, err := ReadRun(c.Run)
	old.Device = c.Device
	if err != nil || differences(old, c) != "" {
		return nil, false
	}
	b, err := os.ReadFile(filepath.Join(c.Run, resultFile))
	if err != nil {
		return nil, false
	}
	var r Result
	if json.Unmarshal(b, &r) != nil || len(r.Epochs) == 0 {
		return nil, false
	}
	return &r, true
}

const resultFile = "result.json"

// HasRun says whether a folder holds a run that Resume can go on with.
func HasRun(dir string) bool { return exists(filepath.Join(dir, "run.yaml")) }

func (c Config) prepare() (Config, error) {
	c, err := c.Resolve()
	if err == nil {
		c, err = c.absolute()
	}
	return c, err
}

func guarded(ctx context.Context, c Config, ev Events, resume bool) (*Result, error) {
	if err := torch.Available(); err != nil {
		return nil, err
	}
	var res *Result
	procs := processesOf(ctx)
	if procs.Rank() > 0 {
		ev = Events{}
	}
	err := compute.Guard(func() (err error) {
		defer func() { err = procs.settle(err) }()
		release, err := onlyWriter(c.Run, procs, ev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		if !resume {
			var used error
			if procs.Rank() == 0 {
				used = checkFresh(c.Run)
			}
			if _, err := procs.first(used, ""); err != nil {
				return err
			}
		}
		c, err := twoStages(ctx, c, ev)
		if err == nil {
			res, err = run(ctx, c, ev, resume)
		}
		return err
	})
	return res, err
}

// PanicError is a mistake of ours, or a panic of a caller's function, as an error; Stack says where. No function of
// this package panics.
type PanicError = caught.Error

// run does a run; hooks see the trainer before the first step and again after the last.
func run(ctx context.Context, c Config, ev Events, resume bool, hooks ...func(*trainer)) (*Result, error) {
	if c.Deterministic {
		torch.SetDeterministic(true)
		torch.SetCuDNNDeterministic(true)
	}
	if c.Threads > 0 {
		if err := torch.SetNumThreads(c.Threads); err != nil {
			return nil, err
		}
	}
	ds, err := Open(c)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	shared := share(ctx, ds)
	s, err := newSession(c, ds, ev)
	if err != nil {
		return nil, err
	}
	if shared {
		s.cacheBytes = 0 // the common cache holds the images
	}
	s.procs = processesOf(ctx)
	if s.procs != nil && c.OptimizerInBackward {
		return nil, &ConfigError{Msg: "optimizer_in_backward steps before the gradients of all processes are there; leave it out, or train in one process"}
	}
	if err := s.checkLabels(); err != nil {
		return nil, err
	}
	ev.note(s.firstLine())
	s.cardNotes()
	ev.note(fmt.Sprintf("%s: %d classes, %d train, %d val, %d test; observed labels: %s", ds.Name, ds.C(), len(s.train), len(ds.Rows(data.Val)), len(ds.Rows(data.Test)), ds.Info.Observed))
	s.scoringNotes()
	env, err := environment(c, ds, s.device)
	if err != nil {
		return nil, err
	}
	if err := s.procs.same(c, env); err != nil {
		return nil, err
	}
	env.Processes = s.procs.Size()
	dir := &runDir{path: c.Run}
	if s.procs.Rank() > 0 {
		dir.path = ""
	}
	t, err := newTrainer(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	t.saver.where = env
	for _, h := range hooks {
		h(t)
		defer h(t)
	}
	if resume {
		if err = t.resume(c.Run, env); err == nil && t.saver.newest != "" {
			err = t.lengthen()
		}
	}
	if err == nil && t.saver.newest == "" {
		err = dir.start(c, env)
	}
	if err != nil {
		return nil, err
	}
	var res *Result
	fit := func() error {
		var err error
		res, err = t.fit(ctx)
		return err
	}
	if c.Mode != Frozen || c.Threads > 0 {
		err = fit()
		return res, err
	}
	// The matrices of a linear head are so small that one thread is faster than several, which wait for each other.
	pool, err := torch.NewPool(1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	err = pool.Run(context.WithoutCancel(ctx), fit)
	return res, err
}

// firstLine says how the run computes.
func (s *session) firstLine() string {
	layout, threads := "channels-last", torch.NumThreads()
	if s.c.Mode == Frozen {
		layout = "a head on features"
		if s.c.Threads == 0 {
			threads = 1
		}
	}
	several := ""
	if s.procs != nil {
		several = fmt.Sprintf(", %d processes, each with its part of every batch", s.procs.Size())
	}
	where := fmt.Sprintf("CPU %s (%s)", torch.CPUCapability(), s.where)
	if !s.onCPU() {
		where = s.where
	}
	return fmt.Sprintf("%s: %s, %s, %d thread(s), %s%s", s.c.Method, s.c.precisionNote(s.device.Type), layout, threads, where, several)
}

func summary(s *Scores, rec EpochRecord) map[string]any {
	return map[string]any{"epoch": rec.Epoch, "test_map": rec.TestMAP, "images": len(s.Rows)}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
