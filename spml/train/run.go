package train

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
)

// ErrNotFinite is wrapped by the error of a run whose loss became NaN or infinite.
var ErrNotFinite = errors.New("the loss is not finite")

// ErrData is wrapped by errors that a data set's contents cause, where no more specific type says so.
var ErrData = fault.ErrData

// Result is what a run ended with.
type Result = rundir.Result

// Run trains by a configuration. Cancelling ctx, its deadline, or MaxSteps ends it after the current step, with a
// checkpoint where there is a run directory; the error is then a *StoppedError.
func Run(ctx context.Context, c config.Config, o RunOptions) (_ *Result, err error) {
	defer caught.Recover(&err)
	if c, err = c.Ready(); err != nil {
		return nil, err
	}
	return guarded(ctx, c, o, false)
}

// RunOptions are what a run has beside its settings. The zero value is a run of its own that tells nobody.
type RunOptions struct {
	Events    Events
	Processes *Processes       // that share the run (Join); nil: this one alone
	Images    *data.ImageCache // decoded images, common to several runs; nil: the run keeps its own
}

// Resume goes on with the run of a directory from its newest sound checkpoint, or from the start where it has none. A
// run that is done gives its result again. change, if not nil, may raise budgets, MaxSteps and SaveEvery, KeepLast,
// KeepBest, and name another Device, on which the last bits differ; other changes are an error. More Epochs make a run
// longer, also one that is done, where nothing it did depends on their number: it then equals, to the bit, a run that
// had them from the start.
func Resume(ctx context.Context, dir string, change func(*config.Config), o RunOptions) (_ *Result, err error) {
	defer caught.Recover(&err)
	c, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	c.Run.Dir = dir
	c.Run.MaxSteps = 0
	if c, err = c.Ready(); err != nil {
		return nil, err
	}
	if change != nil {
		old := c
		change(&c)
		if c, err = c.Ready(); err != nil {
			return nil, err
		}
		if c.Schedule.Epochs > old.Schedule.Epochs {
			rest := c
			rest.Schedule.Epochs = old.Schedule.Epochs
			if config.Differences(allowed(old, rest), rest) == "" {
				if err := canLengthen(old, dir, c.Schedule.Epochs); err != nil {
					return nil, err
				}
				old.Schedule.Epochs = c.Schedule.Epochs
			}
		}
		if d := config.Differences(allowed(old, c), c); d != "" {
			return nil, &config.Error{Msg: fmt.Sprintf("%s cannot go on with other settings (%s); start another run", dir, d)}
		}
	}
	return guarded(ctx, c, o, true)
}

// allowed is old with what a run that goes on may change as c has it.
func allowed(old, c config.Config) config.Config {
	old.Run.MaxSteps, old.Run.SaveEvery, old.Run.KeepLast = c.Run.MaxSteps, c.Run.SaveEvery, c.Run.KeepLast
	old.Run.KeepBest, old.Run.Device = c.Run.KeepBest, c.Run.Device
	return old
}

// Finished gives the result of a run that is done with exactly these settings, else false.
func Finished(c config.Config) (*Result, bool) {
	c, err := c.Ready()
	if err != nil {
		return nil, false
	}
	return rundir.Finished(c)
}

func guarded(ctx context.Context, c config.Config, o RunOptions, resume bool) (*Result, error) {
	if err := torch.Available(); err != nil {
		return nil, err
	}
	var res *Result
	procs := o.Processes.several()
	if o.Processes = procs; procs.Rank() > 0 {
		o.Events = Events{}
	}
	err := compute.Guard(func() (err error) {
		defer func() { err = procs.settle(err) }()
		release, err := onlyWriter(c.Run.Dir, procs, o.Events)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		if !resume {
			var used error
			if procs.Rank() == 0 {
				used = rundir.Fresh(c.Run.Dir)
			}
			if _, err := procs.first(used, ""); err != nil {
				return err
			}
		}
		c, err := twoStages(ctx, c, o)
		if err == nil {
			res, err = run(ctx, c, o, resume)
		}
		return err
	})
	return res, err
}

// PanicError is a mistake of ours, or a panic of a caller's function, as an error; Stack says where. No function of
// this package panics.
type PanicError = caught.Error

// run does a run; hooks see the trainer before the first step and again after the last.
func run(ctx context.Context, c config.Config, o RunOptions, resume bool, hooks ...func(*trainer)) (*Result, error) {
	ev := o.Events
	if c.Run.Deterministic {
		torch.SetDeterministic(true)
		torch.SetCuDNNDeterministic(true)
	}
	if c.Run.Threads > 0 {
		if err := torch.SetNumThreads(c.Run.Threads); err != nil {
			return nil, err
		}
	}
	ds, err := c.Data.Open()
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	if o.Images != nil {
		o.Images.Share(ds)
	}
	s, err := newSession(c, ds, ev)
	if err != nil {
		return nil, err
	}
	if o.Images != nil {
		s.net.CacheBytes = 0 // the common cache holds the images
	}
	s.procs = o.Processes
	if s.procs != nil && c.Optim.InBackward {
		return nil, &config.Error{
			Msg: "optimizer_in_backward steps before the gradients of all processes are there; leave it out, or train in " +
				"one process",
		}
	}
	if err := s.checkLabels(); err != nil {
		return nil, err
	}
	ev.Say(s.firstLine())
	s.cardNotes()
	ev.Say(fmt.Sprintf("%s: %d classes, %d train, %d val, %d test; observed labels: %s", ds.Name, ds.C(),
		len(s.train), len(ds.Rows(data.Val)), len(ds.Rows(data.Test)), ds.Info.Observed))
	s.scoringNotes()
	env, err := rundir.Describe(c, ds, s.device)
	if err != nil {
		return nil, err
	}
	if err := s.procs.same(c, env); err != nil {
		return nil, err
	}
	if err := s.procs.use(s.device, ev.Say); err != nil {
		return nil, err
	}
	env.Processes = s.procs.Size()
	dir := rundir.New(c.Run.Dir)
	if s.procs.Rank() > 0 {
		dir = rundir.New("")
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
		if err = t.resume(c.Run.Dir, env); err == nil && t.saver.newest != "" {
			err = t.lengthen()
		}
	}
	if err == nil && t.saver.newest == "" {
		err = dir.Start(c, env)
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
	if c.Model.Mode != config.Frozen || c.Run.Threads > 0 {
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
	if s.c.Model.Mode == config.Frozen {
		layout = "a head on features"
		if s.c.Run.Threads == 0 {
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
	return fmt.Sprintf(
		"%s: %s, %s, %d thread(s), %s%s",
		s.c.Method.ID,
		s.c.PrecisionNote(s.device.Type),
		layout,
		threads,
		where,
		several,
	)
}

func summary(s *Scores, rec EpochRecord) map[string]any {
	return map[string]any{"epoch": rec.Epoch, "test_map": rec.TestMAP, "images": len(s.Rows)}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
