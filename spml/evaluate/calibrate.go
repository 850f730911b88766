package evaluate

import (
	"context"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/spml/rundir"
)

// ClassThreshold is the threshold that Calibrate chose for a class.
type ClassThreshold struct {
	Class     string  `json:"class"`
	Threshold float64 `json:"threshold"`
	F1        float64 `json:"f1"`         // of the class on validation, 0…1
	F1Default float64 `json:"f1_default"` // with the model's one threshold
}

// Calibrate chooses for each class of a run the threshold with the highest F1 on the run's validation part, which must
// have full labels. A class without positives there keeps the model's threshold. Nothing is written; Export takes the
// result.
func Calibrate(ctx context.Context, dir string, ev progress.Events) ([]ClassThreshold, error) {
	c, err := settings(dir, Options{})
	if err != nil {
		return nil, err
	}
	var out []ClassThreshold
	err = compute.Guard(func() error {
		mc, err := model.ReadConfig(dir)
		if err != nil {
			return err
		}
		ds, sc, _, err := scoreSaved(ctx, dir, c, Options{Part: data.Val}, ev)
		if err != nil {
			return err
		}
		out, err = tuned(ds, sc, mc.Threshold)
		return err
	})
	return out, err
}

// tuned are the thresholds with the highest F1 of these scores, beside one threshold for all.
func tuned(ds *data.Dataset, sc *rundir.Scores, one float64) (out []ClassThreshold, err error) {
	labels, k := ds.Gather(ds.Labels, sc.Rows), ds.C()
	thresholds, f1, err := metric.BestThresholds(sc.Values, labels, k, one)
	if err != nil {
		return nil, err
	}
	for i, t := range thresholds {
		tp, wrong := 0, 0
		for r := range sc.Rows {
			switch present, positive := float64(sc.Values[r*k+i]) > one, labels[r*k+i] == 1; {
			case present && positive:
				tp++
			case present != positive:
				wrong++
			}
		}
		was := 0.0
		if tp > 0 {
			was = 2 * float64(tp) / float64(2*tp+wrong)
		}
		out = append(out, ClassThreshold{ds.Classes[i], t, f1[i], was})
	}
	return out, nil
}
