package train

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Report is what Evaluate finds on one part of a run's data.
type Report struct {
	Run      string        `json:"run"`
	Part     string        `json:"part"`
	Images   int           `json:"images"`
	MAP      float64       `json:"map"` // percent
	PerClass []ClassAP     `json:"per_class"`
	Broken   []data.Broken `json:"-"`
}

// ClassAP is the average precision of one class in percent.
type ClassAP struct {
	Class     string  `json:"class"`
	AP        float64 `json:"ap"`
	Positives int     `json:"positives"`
}

// Evaluate scores the saved model of a run on a part of its data.
func Evaluate(ctx context.Context, dir string, part data.Split, ev Events) (*Report, error) {
	c, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}
	if c, err = c.Resolve(); err != nil {
		return nil, err
	}
	if err := torch.Available(); err != nil {
		return nil, err
	}
	var r *Report
	err = guard(func() error {
		var err error
		r, err = evaluate(ctx, dir, c, part, ev)
		return err
	})
	return r, err
}

func evaluate(ctx context.Context, dir string, c Config, part data.Split, ev Events) (*Report, error) {
	ds, err := Open(c)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	rows := ds.Rows(part)
	if !labelled(ds, part) || len(rows) == 0 {
		return nil, fmt.Errorf("%w: %s has no %v rows with full labels", ErrData, ds.Name, part)
	}
	mc, err := readModelConfig(dir + "/model")
	if err != nil {
		return nil, err
	}
	sd, _, err := nn.LoadSafetensors(dir + "/model/" + modelWeights)
	if err != nil {
		return nil, err
	}
	s, err := newSession(c, ds, ev)
	if err != nil {
		return nil, err
	}
	var l learner
	if mc.FeaturesOnly {
		s.latent = false // a saved head is a linear one
		f, err := newFrozen(ctx, s)
		if err != nil {
			return nil, err
		}
		f.weight, f.bias, l = sd["weight"], sd["bias"], f
	} else {
		s.c.Weights = "" // the saved model has them
		n, err := newNetwork(s)
		if err != nil {
			return nil, err
		}
		if _, err := nn.LoadStateDict(n.model, sd, true); err != nil {
			return nil, err
		}
		l = &fineTune{network: n}
	}
	defer l.close()
	sc, err := l.scores(ctx, part.String(), 0, rows)
	if err != nil {
		return nil, err
	}
	ap, err := sc.PerClass(ds, ds.Labels)
	if err != nil {
		return nil, err
	}
	r := &Report{Run: dir, Part: part.String(), Images: len(sc.Rows), MAP: 100 * metric.Mean(ap), Broken: l.broken()}
	for i, v := range ap {
		n := 0
		for _, row := range sc.Rows {
			n += int(ds.LabelRow(row)[i])
		}
		r.PerClass = append(r.PerClass, ClassAP{ds.Classes[i], 100 * v, n})
	}
	return r, nil
}
