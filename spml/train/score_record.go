package train

import (
	"math"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// truthOf gives the full labels of a row, -1 where they are not known.
func truthOf(ds *data.Dataset, row int, unknown []int8) []int8 {
	if ds.Labels == nil || ds.Full != nil && !ds.Full[row] {
		return unknown
	}
	return ds.LabelRow(row)
}

func unknownRow(c int) []int8 {
	row := make([]int8, c)
	for i := range row {
		row[i] = -1
	}
	return row
}

// countStep adds the scores of a step's parts to those of the epoch.
func (t *trainer) countStep(done []part) error {
	if t.procs.Rank() > 0 || t.dir.Path() == "" {
		return nil
	}
	if t.p.Scores == nil {
		t.p.Scores = &metric.PartScores{}
	}
	for _, d := range done {
		if d.b.Logits == nil {
			continue
		}
		s := scoresOnWay{places: d.v.places, logits: d.b.Logits.Detach().ToDType(torch.Float32).Contiguous()}
		if given := t.method.Positives(d.b, t.values); given != nil {
			s.pseudo = given.ToDType(torch.Int8).Contiguous()
		}
		if !t.late {
			t.count(s)
			continue
		}
		var err error
		if s.logits, err = t.send(s.logits); err == nil && s.pseudo != nil {
			s.pseudo, err = t.send(s.pseudo)
		}
		if err != nil {
			return err
		}
		t.now.scores = append(t.now.scores, s)
	}
	return nil
}

// count adds the scores of some places.
func (t *trainer) count(s scoresOnWay) {
	logits := torch.ToSlice[float32](s.logits)
	var pseudo []int8
	if s.pseudo != nil {
		pseudo = torch.ToSlice[int8](s.pseudo)
	}
	c, usable, unknown, none := t.ds.C(), t.l.usable(), unknownRow(t.ds.C()), make([]int8, t.ds.C())
	for i, place := range s.places {
		row := usable[place]
		t.p.Scores.Images++
		observed, truth := t.ds.ObservedRow(row), truthOf(t.ds, row, unknown)
		if observed == nil {
			observed = none
		}
		for k, y := range observed {
			z := float64(logits[i*c+k])
			t.p.Scores.Count(y, truth[k], pseudo != nil && pseudo[i*c+k] != 0, 1/(1+math.Exp(-z)), z)
		}
	}
}

// recordScores ends the record of an epoch's scores.
func (t *trainer) recordScores(n int, val *Scores) error {
	if t.dir.Path() == "" {
		return nil
	}
	e := metric.EpochScores{Epoch: n, Train: t.p.Scores}
	if val != nil && len(val.Rows) > 0 && labelled(t.ds, data.Val) {
		var err error
		observed := make([]int8, len(val.Values))
		if t.ds.Observed != nil {
			observed = t.ds.Gather(t.ds.Observed, val.Rows)
		}
		truth := t.ds.Gather(t.ds.Labels, val.Rows)
		if e.Val, err = metric.ScoresByLabel(val.Values, truth, observed, len(val.Rows)); err != nil {
			return err
		}
	}
	return t.dir.Scores(e)
}
