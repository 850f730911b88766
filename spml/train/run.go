package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// ErrNotFinite is wrapped by the error of a run whose loss became NaN or infinite.
var ErrNotFinite = errors.New("the loss is not finite")

// ErrData is wrapped by errors that a data set's contents cause, where no more specific type says so.
var ErrData = errors.New("the data do not allow this")

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
	Best   EpochRecord   // the epoch with the highest validation mAP; the last one where there is no validation part
	Epochs []EpochRecord // all
	Broken []data.Broken // images that could not be read
}

// learner is one way of training: it owns parameters and optimiser.
type learner interface {
	// epoch trains once over the training rows and returns Σ batch loss · batch size / images.
	epoch(ctx context.Context, n int) (float64, error)
	// scores predicts rows.
	scores(ctx context.Context, phase string, n int, rows []int) (*Scores, error)
	// save writes the model as it is now.
	save(dir string) error
	broken() []data.Broken
	close() error
}

// Open opens the data set of a configuration. The caller closes it.
func Open(c Config) (*data.Dataset, error) {
	if c.Data == ShapesName {
		ds, err := shapes.New(uint64(*c.DataSeed), shapesTrain, shapesVal, shapesTest)
		if err != nil {
			return nil, err
		}
		return ds.WithSinglePositives(*c.DataSeed)
	}
	return data.OpenCSV(c.Data, data.CSVOptions{Seed: *c.DataSeed})
}

// Run trains by a configuration. Cancelling ctx ends it after the current step with ctx's error.
func Run(ctx context.Context, c Config, ev Events) (*Result, error) {
	c, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	if c, err = c.absolute(); err != nil {
		return nil, err
	}
	if err := checkFresh(c.Run); err != nil {
		return nil, err
	}
	if err := torch.Available(); err != nil {
		return nil, err
	}
	var res *Result
	err = guard(func() error {
		var err error
		res, err = run(ctx, c, ev)
		return err
	})
	return res, err
}

// guard keeps f on one OS thread and turns a panic of tensor maths into its error.
func guard(f func() error) (err error) {
	return torch.Do(func() error {
		if e := torch.Try(func() { err = f() }); e != nil {
			return e
		}
		return err
	})
}

func run(ctx context.Context, c Config, ev Events) (*Result, error) {
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
	e, err := loss.Lookup(c.Method)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Needs&loss.Full != 0 && ds.Labels == nil:
		return nil, fmt.Errorf("%w: %s needs full labels (labels.csv), %s has none", ErrData, c.Method, ds.Name)
	case e.Needs&loss.Observed != 0 && ds.Observed == nil:
		return nil, fmt.Errorf("%w: %s has no observed labels", ErrData, ds.Name)
	}
	criterion, err := e.Make(c.Preset, c.parameters(e), loss.Options{LogEps: c.LogEps})
	if err != nil {
		return nil, err
	}
	rows := [3][]int{ds.Rows(data.Train), ds.Rows(data.Val), ds.Rows(data.Test)}
	if len(rows[data.Train]) == 0 {
		return nil, fmt.Errorf("%w: %s has no training rows", ErrData, ds.Name)
	}
	ev.note(fmt.Sprintf("%s: %d classes, %d train, %d val, %d test; observed labels: %s", ds.Name, ds.C(), len(rows[0]), len(rows[1]), len(rows[2]), ds.Info.Observed))
	env, err := environment(c, ds)
	if err != nil {
		return nil, err
	}
	s := &session{c: c, ds: ds, ev: ev, loss: criterion, train: rows[data.Train], random: random.New(c.Seed)}
	var l learner
	if c.Mode == Frozen {
		l, err = newFrozen(ctx, s)
	} else {
		l, err = newFineTune(s)
	}
	if err != nil {
		return nil, err
	}
	defer l.close()
	dir, err := newRunDir(c, env)
	if err != nil {
		return nil, err
	}
	var res *Result
	epochs := func() error {
		var err error
		res, err = fit(ctx, s, l, dir, rows)
		return err
	}
	if c.Mode != Frozen || c.Threads > 0 {
		err = epochs()
		return res, err
	}
	// The matrices of a linear head are so small that one thread is faster than several, which wait for each other.
	pool, err := torch.NewPool(1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	err = pool.Run(ctx, epochs)
	return res, err
}

// session is what both ways of training share.
type session struct {
	c      Config
	ds     *data.Dataset
	ev     Events
	loss   loss.Loss
	train  []int               // rows
	random *random.RandomState // the recipe's draws, in their order
	// parameters are what a norm penalty is taken of: all that is trained.
	parameters []*torch.Tensor
}

func fit(ctx context.Context, s *session, l learner, dir *runDir, rows [3][]int) (*Result, error) {
	res := &Result{}
	scored := s.ds.Labels != nil
	for n := 1; n <= s.c.Epochs; n++ {
		start := time.Now()
		rec := EpochRecord{Epoch: n}
		var err error
		if rec.Loss, err = l.epoch(ctx, n); err != nil {
			return nil, err
		}
		var test *Scores
		if scored {
			if len(rows[data.Val]) > 0 {
				if _, rec.ValMAP, err = mAP(ctx, s, l, "validate", n, rows[data.Val]); err != nil {
					return nil, err
				}
			}
			if len(rows[data.Test]) > 0 {
				if test, rec.TestMAP, err = mAP(ctx, s, l, "test", n, rows[data.Test]); err != nil {
					return nil, err
				}
			}
		}
		// Without a validation part no epoch can be selected: the last one counts.
		rec.Best = n == 1 || !scored || len(rows[data.Val]) == 0 || rec.ValMAP > res.Best.ValMAP
		rec.Seconds = time.Since(start).Seconds()
		if rec.Best {
			res.Best = rec
			if dir.path != "" {
				if err := l.save(filepath.Join(dir.path, "model")); err != nil {
					return nil, err
				}
				if test != nil {
					if err := dir.json("test_scores.json", summary(test, rec)); err != nil {
						return nil, err
					}
				}
			}
		}
		res.Epochs = append(res.Epochs, rec)
		if err := dir.epoch(rec); err != nil {
			return nil, err
		}
		s.ev.epoch(rec)
	}
	res.Broken = l.broken()
	if dir.path != "" && len(res.Broken) > 0 {
		var names []map[string]string
		for _, b := range res.Broken {
			names = append(names, map[string]string{"image": b.Name, "reason": b.Err.Error()})
		}
		if err := dir.json("broken.json", names); err != nil {
			return nil, err
		}
	}
	return res, nil
}

func summary(s *Scores, rec EpochRecord) map[string]any {
	return map[string]any{"epoch": rec.Epoch, "test_map": rec.TestMAP, "images": len(s.Rows)}
}

func mAP(ctx context.Context, s *session, l learner, phase string, n int, rows []int) (*Scores, float64, error) {
	sc, err := l.scores(ctx, phase, n, rows)
	if err != nil {
		return nil, 0, err
	}
	v, err := sc.MAP(s.ds)
	var score *metric.ScoreError
	if errors.As(err, &score) {
		return nil, 0, fmt.Errorf("%w: after epoch %d the score of %s for %q is %v; lower --lr", ErrNotFinite, n, s.ds.Images[sc.Rows[score.Row]], s.ds.Classes[score.Class], score.Score)
	}
	return sc, v, err
}

// value computes the loss of one batch and refuses a number that is not finite, naming the rows.
func (s *session) value(z, observed, full *torch.Tensor, epoch int, rows []int) (*torch.Tensor, float64, error) {
	v, err := s.loss.Value(loss.Batch{Logits: z, Observed: observed, Full: full, Epoch: epoch, Parameters: s.parameters})
	if err != nil {
		return nil, 0, err
	}
	x := v.Item()
	if math.IsNaN(x) || math.IsInf(x, 0) {
		names := make([]string, 0, 3)
		for _, r := range rows[:min(3, len(rows))] {
			names = append(names, s.ds.Images[r])
		}
		return nil, 0, fmt.Errorf("%w (%v) in epoch %d, batch of %d images starting with %v; lower --lr", ErrNotFinite, x, epoch, len(rows), names)
	}
	return v, x, nil
}

// modelFiles are the names inside a run's model folder.
const (
	modelConfig  = "config.json"
	modelWeights = "model.safetensors"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
