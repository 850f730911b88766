// Package evaluate applies the saved model of a run to a data set: scores, reports, outputs for further work, and
// thresholds for each class.
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Report is what Run finds on one part of a run's data.
type Report struct {
	Run    string  `json:"run"`
	Part   string  `json:"part"`
	Images int     `json:"images"`
	MAP    float64 `json:"map"` // percent
	// MicroF1 and MacroF1 are of the decisions at the model's thresholds, in percent; Threshold is the one of all classes,
	// 0 where each has its own.
	MicroF1   float64       `json:"micro_f1"`
	MacroF1   float64       `json:"macro_f1"`
	Threshold float64       `json:"threshold,omitempty"`
	PerClass  []ClassAP     `json:"per_class"`
	Broken    []data.Broken `json:"-"`
}

// ClassAP is the average precision of one class in percent.
type ClassAP struct {
	Class     string  `json:"class"`
	AP        float64 `json:"ap"`
	Positives int     `json:"positives"`
}

// Options say on what a saved model is scored.
type Options struct {
	Part data.Split
	// another data set than the run's, in any format of data.Open, with the run's classes; empty: the run's
	Data        string
	DataOptions config.DataOptions // choices of Data
	// Device is where: auto (the default), cpu, cuda or cuda:N. Where the run was trained does not matter.
	Device string
	EXIF   string // apply or ignore; empty: as the run was trained
}

// settings are those of a run for its saved model, on the data and the device of o.
func settings(dir string, o Options) (config.Config, error) {
	c, err := rundir.Read(dir)
	if err != nil {
		return c, err
	}
	if o.Data != "" {
		c.Data.Path, c.Data.Options = o.Data, o.DataOptions
	}
	c.Run.Device = o.Device
	if o.EXIF != "" {
		c.Data.EXIF = o.EXIF
	}
	if c, err = c.Resolve(); err != nil {
		return c, err
	}
	return c, torch.Available()
}

// Run scores the saved model of a run on a part of its own or of another data set. The other set's classes are
// found by name, where it names them, and must be the run's.
func Run(ctx context.Context, dir string, o Options, ev progress.Events) (*Report, error) {
	c, err := settings(dir, o)
	if err != nil {
		return nil, err
	}
	var r *Report
	err = compute.Guard(func() error {
		ds, sc, broken, err := scoreSaved(ctx, dir, c, o, ev)
		if err == nil {
			r, err = report(dir, o.Part, ds, sc, broken)
		}
		if err == nil {
			err = r.decide(dir, ds, sc)
		}
		return err
	})
	return r, err
}

// decide counts the decisions at the thresholds of the saved model.
func (r *Report) decide(dir string, ds *data.Dataset, sc *rundir.Scores) error {
	mc, err := model.ReadConfig(dir + "/model")
	if err != nil {
		return err
	}
	at := make([]float64, ds.C())
	for c := range at {
		at[c] = mc.ThresholdOf(c)
	}
	if mc.Thresholds == nil {
		r.Threshold = mc.Threshold
	}
	counts, err := metric.CountAt(sc.Values, ds.Gather(ds.Labels, sc.Rows), ds.C(), at...)
	if err != nil {
		return err
	}
	r.MicroF1, r.MacroF1 = 100*metric.Micro(counts).F1, 100*metric.Macro(counts).F1
	return nil
}

// Score gives the scores of the saved model of a run on a part of its data, and the data set, closed: its labels and
// names stay.
func Score(ctx context.Context, dir string, part data.Split, ev progress.Events) (
	ds *data.Dataset, sc *rundir.Scores, err error) {
	c, err := settings(dir, Options{})
	if err != nil {
		return nil, nil, err
	}
	err = compute.Guard(func() (err error) {
		ds, sc, _, err = scoreSaved(ctx, dir, c, Options{Part: part}, ev)
		return err
	})
	return ds, sc, err
}

// scoreSaved scores a part of a data set by the saved model of a run. The data set comes back closed; its labels stay.
func scoreSaved(ctx context.Context, dir string, c config.Config, o Options, ev progress.Events) (
	_ *data.Dataset, _ *rundir.Scores, broken []data.Broken, err error) {
	ds, l, err := openSaved(ctx, dir, c, o.Data, ev)
	if err != nil {
		return nil, nil, nil, err
	}
	defer ds.Close()
	defer l.Close()
	rows := ds.Rows(o.Part)
	if !ds.FullyLabelled(rows) || len(rows) == 0 {
		return nil, nil, nil, fmt.Errorf("%w: %s has no %v rows with full labels", fault.ErrData, ds.Name, o.Part)
	}
	sc, err := l.Scores(ctx, o.Part.String(), 0, rows)
	if err != nil {
		return nil, nil, nil, err
	}
	return ds, sc, l.Broken(), nil
}

// scorer is a saved model on a data set.
type scorer interface {
	Scores(ctx context.Context, phase string, epoch int, rows []int) (*rundir.Scores, error)
	Outputs(ctx context.Context, rows []int) (*network.Outputs, error)
	Freeze() // before outputs: takes a form for inference, where there is one
	Broken() []data.Broken
	Close() error
}

// openSaved opens the saved model of a run on the data set of c; from is the data set where it is another than the
// run's, else "". The caller closes both.
func openSaved(ctx context.Context, dir string, c config.Config, from string, ev progress.Events) (
	_ *data.Dataset, _ scorer, err error) {
	mc, err := model.ReadConfig(dir + "/model")
	if err != nil {
		return nil, nil, err
	}
	ds, err := openFor(&mc, c, from)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ds.Close())
		}
	}()
	sd, _, err := nn.LoadSafetensors(dir + "/model/" + model.WeightsFile)
	if err != nil {
		return nil, nil, err
	}
	options, err := network.Prepare(c, ds, ev)
	if err != nil {
		return nil, nil, err
	}
	if mc.FeaturesOnly {
		f, err := network.Store(ctx, options)
		if err != nil {
			return nil, nil, err
		}
		f.Weight, f.Bias = compute.To(sd["weight"], options.Device), compute.To(sd["bias"], options.Device)
		return ds, f, nil
	}
	options.Config.Model.Weights, options.Saved = "", &mc // the saved model has them
	n, err := network.New(options)
	if err != nil {
		return nil, nil, err
	}
	model.Fit(n.Model, sd)
	if _, err := nn.LoadStateDict(n.Model, sd, true); err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	return ds, n, nil
}

// openFor opens the data set of c, which must have the model's classes; from is its name where it is another than the
// run's.
func openFor(mc *model.Config, c config.Config, from string) (ds *data.Dataset, err error) {
	if from == "" || from == config.Shapes {
		ds, err = c.Data.Open()
	} else {
		ds, err = c.Data.Open(mc.LabelNames...)
	}
	if err == nil && !slices.Equal(ds.Classes, mc.LabelNames) {
		err = errors.Join(fmt.Errorf("%w: the classes of %s are not those of the model, in the same order", fault.ErrData,
			ds.Name), ds.Close())
	}
	return ds, err
}

func report(dir string, part data.Split, ds *data.Dataset, sc *rundir.Scores, broken []data.Broken) (*Report, error) {
	ap, err := sc.PerClass(ds, ds.Labels)
	if err != nil {
		return nil, err
	}
	r := &Report{Run: dir, Part: part.String(), Images: len(sc.Rows), MAP: 100 * metric.Mean(ap), Broken: broken}
	for i, v := range ap {
		n := 0
		for _, row := range sc.Rows {
			n += int(ds.LabelRow(row)[i])
		}
		r.PerClass = append(r.PerClass, ClassAP{ds.Classes[i], 100 * v, n})
	}
	return r, nil
}
