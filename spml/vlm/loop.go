package vlm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// quality counts an epoch's pseudo-labels.
type quality struct {
	ds     *data.Dataset
	usable []int
	metric.PseudoQuality
	negatives, wrong, trues int
	logs                    float64 // of the scores of true positives
	epoch                   int     // that is counted
}

// Start begins to count; an epoch that was begun before a restart goes on.
func (q *quality) Start(epoch int) error {
	if q.epoch != epoch {
		*q = quality{ds: q.ds, usable: q.usable, epoch: epoch}
	}
	return nil
}

// add counts the pseudo-labels [len(places), C] of some places; scores may be nil.
func (q *quality) add(places []int, pseudo []int8, scores []float32) error {
	if q.ds.Labels == nil {
		return nil
	}
	c := q.ds.C()
	for i, p := range places {
		row := q.usable[p]
		if q.ds.Full != nil && !q.ds.Full[row] {
			continue
		}
		truth, given := q.ds.LabelRow(row), pseudo[i*c:(i+1)*c]
		if err := q.Add(truth, given, q.ds.ObservedRow(row)); err != nil {
			return err
		}
		for k, y := range truth {
			if given[k] == -1 {
				q.negatives++
				if y == 1 {
					q.wrong++
				}
			}
			if y == 1 && scores != nil {
				q.trues++
				q.logs += math.Log(max(float64(scores[i*c+k]), math.SmallestNonzeroFloat32))
			}
		}
	}
	return nil
}

// Record says how good the epoch's labels were so far; nil where there were none to judge.
func (q *quality) Record() *metric.PseudoRecord {
	if q.Pseudo == 0 && q.Hidden == 0 && q.negatives == 0 {
		return nil
	}
	r := &metric.PseudoRecord{PseudoQuality: q.PseudoQuality, Precision: 100 * q.PseudoQuality.Precision(), Recall: 100 * q.PseudoQuality.Recall(), F1: 100 * q.PseudoQuality.F1(), Negatives: q.negatives, Wrong: q.wrong}
	if q.trues > 0 {
		r.Confidence = math.Exp(q.logs / float64(q.trues))
	}
	return r
}

// State holds the counts.
func (q *quality) State() label.State {
	return label.State{Numbers: map[string]float64{
		"epoch": float64(q.epoch), "pseudo": float64(q.Pseudo), "correct": float64(q.Correct), "hidden": float64(q.Hidden),
		"negatives": float64(q.negatives), "wrong": float64(q.wrong), "trues": float64(q.trues), "logs": q.logs,
	}}
}

// LoadState goes on counting; a checkpoint without counts starts them.
func (q *quality) LoadState(s label.State) error {
	n := func(name string) int { return int(s.Numbers[name]) }
	q.epoch = n("epoch")
	q.Pseudo, q.Correct, q.Hidden = n("pseudo"), n("correct"), n("hidden")
	q.negatives, q.wrong, q.trues, q.logs = n("negatives"), n("wrong"), n("trues"), s.Numbers["logs"]
	return nil
}

// FileLabels gives pseudo-labels that another program made.
type FileLabels struct {
	label.None
	quality
	labels *torch.Tensor // [n, C] int8
	host   []int8        // the same
}

// NewFileLabels reads an .npy file [N, C] of 1, 0 and -1 in the order of a data set; usable are the rows that training
// has.
func NewFileLabels(path string, ds *data.Dataset, usable []int, d torch.Device) (*FileLabels, error) {
	a, err := npy.Read(path)
	if err != nil {
		return nil, err
	}
	values, err := a.Float32()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n, c := ds.N(), ds.C()
	if len(a.Shape) != 2 || a.Shape[0] != int64(n) || a.Shape[1] != int64(c) {
		return nil, fmt.Errorf("%w: %s has shape %v, %s has %d images and %d classes", fault.ErrData, path, a.Shape, ds.Name, n, c)
	}
	m := make([]int8, n*c)
	for i, x := range values {
		if x != 0 && x != 1 && x != -1 {
			return nil, fmt.Errorf("%w: %s: row %d, class %d is %v, want 1, 0 or -1", fault.ErrData, path, i/c, i%c, x)
		}
		m[i] = int8(x)
	}
	host := ds.Gather(m, usable)
	return &FileLabels{quality: quality{ds: ds, usable: usable}, labels: compute.Upload(d, host, len(usable), c), host: host}, nil
}

func (p *FileLabels) Start(epoch int) error         { return p.quality.Start(epoch) }
func (p *FileLabels) State() label.State            { return p.quality.State() }
func (p *FileLabels) LoadState(s label.State) error { return p.quality.LoadState(s) }

func (p *FileLabels) Fill(s *label.Step) error {
	s.Batch.Pseudo = p.labels.IndexSelect(0, s.At)
	return nil
}

func (p *FileLabels) After(s *label.Step) error {
	c := p.ds.C()
	given := make([]int8, 0, len(s.Places)*c)
	for _, i := range s.Places {
		given = append(given, p.host[i*c:(i+1)*c]...)
	}
	return p.add(s.Places, given, nil)
}

// LiveLabels are made by an image-text model for each batch, of the views of that epoch: VLPL of the photo, mirrored as
// the classifier sees it, DAMP of tiles that are drawn anew.
//
// What a photo gets depends on seed, epoch and row alone, so a resumed run makes the same.
type LiveLabels struct {
	label.None
	quality
	ctx      context.Context // of the run, which creates and ends this
	ds       *data.Dataset
	src      data.RawSource
	model    *clip.Model
	labeller *Labeller
	device   torch.Device
	settings Settings
	// cosines of VLPL by place, plain and mirrored, which do not change; nil: not kept. seen says which are there.
	cosines [2][]float32
	seen    [2][]bool
	unread  map[int]bool         // places of photos that could not be read, which have their observed labels alone
	made    map[*loss.Batch]made // of the step in work
	there   *there               // of a device; nil on the CPU
}

type made struct {
	pseudo []int8
	scores []float32
}

// keepCosines bounds the memory of VLPL's cosines.
const keepCosines = 2 << 30

// Live says what LiveLabels are made of.
type Live struct {
	Data     *data.Dataset
	Rows     []int // that training has
	Device   torch.Device
	Open     func() (*clip.Model, error)
	Settings Settings
	Flip     bool // photos are mirrored in training
	Note     func(text string)
}

// NewLiveLabels opens the image-text model. ctx ends the labelling; Close frees the model.
func NewLiveLabels(ctx context.Context, s Live) (_ *LiveLabels, err error) {
	src, ok := s.Data.Source.(data.RawSource)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no image files that an image-text model could look at; make labels beforehand (--pseudo-labels)", fault.ErrData, s.Data.Name)
	}
	settings, usable := s.Settings, s.Rows
	if settings.Cache, err = TextCache(); err != nil {
		return nil, err
	}
	l := &LiveLabels{quality: quality{ds: s.Data, usable: usable}, ctx: ctx, ds: s.Data, src: src, device: s.Device, settings: settings, made: map[*loss.Batch]made{}, unread: map[int]bool{}}
	if l.model, err = s.Open(); err != nil {
		return nil, err
	}
	s.Note("labels by " + strings.TrimSpace(l.model.Loaded().String()))
	if l.labeller, err = New(ctx, l.model, s.Data.Classes, settings); err != nil {
		l.model.Close()
		return nil, err
	}
	if s.Device.Type != torch.DeviceCPU && l.model.Device() == s.Device {
		l.there = &there{made: map[*loss.Batch][2]*torch.Tensor{}}
	}
	if source := l.labeller.Source(); source != "" {
		s.Note(source)
	}
	if settings.Method == VLPL {
		n := len(usable) * s.Data.C()
		for i := range l.cosines {
			if i > 0 && !s.Flip {
				break
			}
			if 8*n <= keepCosines {
				l.seen[i] = make([]bool, len(usable))
				if l.there == nil {
					l.cosines[i] = make([]float32, n)
				} else if err := l.there.table(i, len(usable), s.Data.C(), s.Device); err != nil {
					return nil, errors.Join(err, l.Close())
				}
			} else {
				s.Note(fmt.Sprintf("%d × %d cosines are too many to keep: photos are encoded anew in each epoch", len(usable), s.Data.C()))
				break
			}
		}
	}
	return l, nil
}

// Close frees the model.
func (l *LiveLabels) Close() error {
	l.model.Close()
	return nil
}

func (l *LiveLabels) Start(epoch int) error {
	clear(l.made)
	if err := l.settle(); err != nil {
		return err
	}
	return l.quality.Start(epoch)
}

func (l *LiveLabels) LoadState(s label.State) error { return l.quality.LoadState(s) }

func (l *LiveLabels) Fill(v *label.Step) error {
	if l.there != nil {
		return l.fillThere(v)
	}
	n, c := len(v.Places), l.ds.C()
	epoch := max(v.Epoch, 1)
	var observed []int8
	for _, p := range v.Places {
		observed = append(observed, l.ds.ObservedRow(l.usable[p])...)
	}
	var m made
	if l.cosines[0] != nil {
		global, err := l.stored(v)
		if err != nil {
			return err
		}
		out, err := l.settings.Labels(torch.FromSlice(global, n, c), nil, observed)
		if err != nil {
			return err
		}
		m = made{out.Pseudo, out.Scores}
	} else {
		photos, broken, err := l.photos(v.Places, epoch)
		if err != nil {
			return err
		}
		if l.settings.Method == VLPL {
			photos.Mirror = mirrored(v)
		}
		out, unread, err := l.labeller.Label(l.ctx, photos, observed)
		if err != nil {
			return err
		}
		m = made{out.Pseudo, out.Scores}
		for i, p := range v.Places {
			if broken[i] != nil || unread[i] != nil {
				l.unread[p] = true
			}
		}
	}
	for i, p := range v.Places {
		if l.unread[p] {
			clear(m.pseudo[i*c : (i+1)*c])
			clear(m.scores[i*c : (i+1)*c])
		}
	}
	l.made[v.Batch] = m
	v.Batch.Pseudo = compute.Upload(l.device, m.pseudo, n, c)
	return nil
}

// mirrored says which images of a view are.
func mirrored(v *label.Step) []bool {
	m := make([]bool, len(v.Places))
	for i, c := range v.Crops() {
		m[i] = c.Flip
	}
	return m
}

// photos are the files of some places; broken has the reason of each that could not be read.
func (l *LiveLabels) photos(places []int, epoch int) (p Photos, broken []error, err error) {
	p = Photos{Rows: make([]int, len(places)), Files: make([][]byte, len(places)), Epoch: epoch}
	broken = make([]error, len(places))
	for i, at := range places {
		p.Rows[i] = l.usable[at]
		p.Files[i], broken[i] = l.src.ReadFile(p.Rows[i], nil)
	}
	return p, broken, l.ctx.Err()
}

// stored are the cosines of a view [B, C]; those that are not there yet are made.
func (l *LiveLabels) stored(v *label.Step) ([]float32, error) {
	c, turned := l.ds.C(), mirrored(v)
	if err := l.encodeMissing(v.Places, turned); err != nil {
		return nil, err
	}
	out := make([]float32, 0, len(v.Places)*c)
	for i, p := range v.Places {
		from := l.cosines[0]
		if turned[i] {
			from = l.cosines[1]
		}
		out = append(out, from[p*c:(p+1)*c]...)
	}
	return out, nil
}

// encodeMissing makes the cosines of places that are not there yet.
func (l *LiveLabels) encodeMissing(places []int, turned []bool) error {
	for _, turn := range []int{0, 1} {
		for i, p := range places {
			if turned[i] == (turn == 1) && !l.seen[turn][p] {
				if err := l.encode(p/cosineBlock*cosineBlock, turn); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cosineBlock is how many neighbouring places are encoded together: the last bits of an encoding depend on what is
// encoded with it, and a resumed run is to have the same.
const cosineBlock = 8

// encode keeps the cosines of a block of places.
func (l *LiveLabels) encode(from, turn int) error {
	var places []int
	for p := from; p < min(from+cosineBlock, len(l.usable)); p++ {
		places = append(places, p)
	}
	photos, broken, err := l.photos(places, 0)
	if err != nil {
		return err
	}
	photos.Mirror = slices.Repeat([]bool{turn == 1}, len(places))
	var unread []error
	if l.there != nil {
		unread, err = l.there.encode(l.ctx, l.labeller, photos, turn, from)
	} else {
		var global *torch.Tensor
		if global, _, unread, err = l.labeller.Cosines(l.ctx, photos); err == nil {
			copy(l.cosines[turn][from*l.ds.C():], torch.ToSlice[float32](global))
			global.Free()
		}
	}
	if err != nil {
		return err
	}
	for i, p := range places {
		l.seen[turn][p] = true
		l.unread[p] = broken[i] != nil || unread[i] != nil
	}
	return nil
}

func (l *LiveLabels) After(s *label.Step) error {
	if l.there != nil {
		return l.afterThere(s)
	}
	m, ok := l.made[s.Batch]
	delete(l.made, s.Batch) // those of other parts of the batch stay
	if !ok {
		return nil
	}
	return l.add(s.Places, m.pseudo, m.scores)
}
