package vlm

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// there is what LiveLabels have on a device. Cosines, labels and scores are made and stay there; what is counted of
// them
// comes to the host on its own while the next step is at work, so that no step waits.
type there struct {
	tables   [2]*torch.Tensor                 // VLPL's cosines by place [n, C], plain and mirrored; nil: not kept
	made     map[*loss.Batch][2]*torch.Tensor // labels and scores of the step in work
	arrivals compute.Arrivals[[]int]          // the same of earlier steps, with their places
}

func (t *there) table(turn, n, c int, d torch.Device) error {
	return torch.Try(func() {
		compute.Outside(func() { t.tables[turn] = torch.Zeros(torch.S(n, c), torch.Float32, d) })
	})
}

// encode keeps the cosines of photos, whose first place is from.
func (t *there) encode(ctx context.Context, l *Labeller, p Photos, turn, from int) (unread []error, err error) {
	global, _, unread, err := l.cosinesThere(ctx, p)
	if err != nil {
		return nil, err
	}
	err = torch.Try(func() {
		torch.NoGrad(func() { t.tables[turn].Narrow(0, from, len(p.Rows)).Copy_(global) })
		global.Free()
	})
	return unread, err
}

// fillThere is Fill on a device.
func (l *LiveLabels) fillThere(v *label.Step) error {
	t := l.there
	t.arrivals.Mark()
	global, tiles, err := l.cosinesThere(v)
	if err != nil {
		return err
	}
	pseudo, scores, err := l.settings.there(global, tiles, v.Batch.Observed)
	if err != nil {
		return err
	}
	read := make([]bool, len(v.Places))
	for i, p := range v.Places {
		read[i] = !l.unread[p]
	}
	return torch.Try(func() {
		if slices.Contains(read, false) {
			not := torch.Upload(l.device, read, len(read), 1).LogicalNot()
			pseudo, scores = pseudo.MaskedFill(not, 0), scores.MaskedFill(not, 0)
		}
		t.made[v.Batch] = [2]*torch.Tensor{pseudo, scores}
		v.Batch.Pseudo = pseudo
	})
}

// cosinesThere are those of a view [B, C], and of its tiles, nil for VLPL.
func (l *LiveLabels) cosinesThere(v *label.Step) (global, tiles *torch.Tensor, err error) {
	t, turned := l.there, mirrored(v)
	if t.tables[0] == nil {
		photos, broken, err := l.photos(v.Places, max(v.Epoch, 1))
		if err != nil {
			return nil, nil, err
		}
		if l.settings.Method == VLPL {
			photos.Mirror = turned
		}
		global, tiles, unread, err := l.labeller.cosinesThere(l.ctx, photos)
		if err != nil {
			return nil, nil, err
		}
		for i, p := range v.Places {
			if broken[i] != nil || unread[i] != nil {
				l.unread[p] = true
			}
		}
		return global, tiles, nil
	}
	if err := l.encodeMissing(v.Places, turned); err != nil {
		return nil, nil, err
	}
	err = torch.Try(func() {
		global = t.tables[0].IndexSelect(0, v.At)
		if slices.Contains(turned, true) {
			global = torch.Where(torch.Upload(l.device, turned, len(turned), 1), t.tables[1].IndexSelect(0, v.At), global)
		}
	})
	return global, nil, err
}

// there is Labels without a look at the values: pseudo-labels int8 and scores float32 [B, C] stay where the cosines and
// the observed labels [B, C] are.
func (s *Settings) there(global, tiles, observed *torch.Tensor) (pseudo, scores *torch.Tensor, err error) {
	switch {
	case s.Method == VLPL && s.Form == Default:
		return label.VLPLKeep(global, observed, s.Tau, s.Theta, s.Delta)
	case s.Method == VLPL:
		return label.VLPL(global, s.Tau, s.Theta, s.Delta)
	}
	var seen *torch.Tensor
	err = torch.Try(func() {
		// In a row without a positive the most similar class stands in for one.
		closest := observed.ScatterValue(1, global.Argmax(1, true), 1)
		seen = torch.Where(observed.EqScalar(1).AnyDim(1, true), observed, closest)
	})
	if err != nil {
		return nil, nil, err
	}
	r, err := label.DAMP(global, tiles, seen, s.damp())
	if err != nil {
		return nil, nil, err
	}
	return r.Pseudo, r.Final, nil
}

// afterThere is After on a device.
func (l *LiveLabels) afterThere(s *label.Step) error {
	t := l.there
	m, ok := t.made[s.Batch]
	delete(t.made, s.Batch)
	if !ok {
		return nil
	}
	if err := t.arrivals.Settle(false, l.arrived); err != nil {
		return err
	}
	return t.arrivals.Send(slices.Clone(s.Places), m[0], m[1])
}

// arrived counts the labels and scores of a step.
func (l *LiveLabels) arrived(places []int, ts []*torch.Tensor) error {
	pseudo, scores := torch.ToSlice[int8](ts[0]), torch.ToSlice[float32](ts[1])
	for i, v := range scores {
		if math.IsNaN(float64(v)) {
			return fmt.Errorf("%w: row %d: the model gives no number for the photo", ErrSettings, l.usable[places[i/l.ds.C()]])
		}
	}
	return l.add(places, pseudo, scores)
}

// settle counts what is still on its way from a device.
func (l *LiveLabels) settle() error {
	if l.there == nil {
		return nil
	}
	clear(l.there.made)
	return l.there.arrivals.Settle(true, l.arrived)
}

// End counts what is still on its way.
func (l *LiveLabels) End(int, func() (*torch.Tensor, error)) error { return l.settle() }

// Record says how good the epoch's labels were so far; nil where there were none to judge.
func (l *LiveLabels) Record() *metric.PseudoRecord {
	l.hold()
	return l.quality.Record()
}

// State holds the counts.
func (l *LiveLabels) State() label.State {
	l.hold()
	return l.quality.State()
}

// hold settles and keeps an error for the next step.
func (l *LiveLabels) hold() {
	if l.there != nil {
		l.there.arrivals.Hold(l.there.arrivals.Settle(true, l.arrived))
	}
}
