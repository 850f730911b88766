package evaluate

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/spml/rundir"
)

// Quantized is what Quantize did: its calibration's photos, and what the int8 form scores on the validation part beside
// the float32 form.
type Quantized struct {
	Photos      int              `json:"photos"`
	MAP         float64          `json:"map"`         // percent, in int8
	MAPFloat32  float64          `json:"map_float32"` // percent
	Thresholds  []ClassThreshold `json:"thresholds"`  // tuned on the scores in int8
	ValidatedOn int              `json:"validated_on"`
}

// Quantize writes the saved model of a run to a folder that must not exist, to predict in int8 on CPUs that multiply it
// (backbone.Quantize): calibrated on this many photos of the run's training part, evenly spread over it, with a
// threshold for each class from the scores of the int8 form on the validation part, which must have full labels.
func Quantize(ctx context.Context, dir, to string, photos int, ev progress.Events) (*Quantized, error) {
	if photos < 1 {
		return nil, fault.Settingf("a calibration of %d photos; want at least 1", photos)
	}
	if err := model.Vacant(to); err != nil {
		return nil, err
	}
	c, err := settings(dir, Options{Device: "cpu"})
	if err != nil {
		return nil, err
	}
	var q *Quantized
	err = compute.Guard(func() error {
		mc, err := model.ReadConfig(dir)
		if err != nil {
			return err
		}
		ds, l, err := openSaved(ctx, dir, c, "", ev)
		if err != nil {
			return err
		}
		defer ds.Close()
		defer l.Close()
		n, ok := l.(*network.Network)
		if !ok {
			return fmt.Errorf("%w: %s is a head on stored features, which has nothing to compute in int8", fault.ErrData, dir)
		}
		rows := ds.Rows(data.Val)
		if !ds.FullyLabelled(rows) || len(rows) == 0 {
			return fmt.Errorf("%w: %s has no val rows with full labels, which int8 wants for its thresholds", fault.ErrData,
				ds.Name)
		}
		some := spread(ds.Rows(data.Train), photos)
		found, err := n.Calibrate(ctx, some)
		if err != nil {
			return err
		}
		q = &Quantized{Photos: found.Photos}
		floats, err := n.Scores(ctx, data.Val.String(), 0, rows)
		if err != nil {
			return err
		}
		if err := n.Quantize(found); err != nil {
			return err
		}
		sc, err := n.Scores(ctx, data.Val.String(), 0, rows)
		if err != nil {
			return err
		}
		q.ValidatedOn = len(sc.Rows)
		if q.MAPFloat32, err = meanAP(floats, ds); err == nil {
			q.MAP, err = meanAP(sc, ds)
		}
		if err == nil {
			q.Thresholds, err = tuned(ds, sc, mc.Threshold)
		}
		if err != nil {
			return err
		}
		at := make([]float64, len(q.Thresholds))
		for i, t := range q.Thresholds {
			at[i] = t.Threshold
		}
		return model.ExportInt8(dir, to, found, at)
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

func meanAP(sc *rundir.Scores, ds *data.Dataset) (float64, error) {
	ap, err := sc.PerClass(ds, ds.Labels)
	return 100 * metric.Mean(ap), err
}

// spread are at most n of rows, evenly.
func spread(rows []int, n int) []int {
	if n >= len(rows) {
		return rows
	}
	out := make([]int, n)
	for i := range out {
		out[i] = rows[i*len(rows)/n]
	}
	return out
}
