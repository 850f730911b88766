package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// PseudoRecord says how good an epoch's pseudo-labels were, over the images with full labels and without the observed positives.
type PseudoRecord struct {
	metric.PseudoQuality
	Precision float64 `json:"precision"` // percent
	Recall    float64 `json:"recall"`    // percent
	F1        float64 `json:"f1"`        // percent
	Negatives int     `json:"negatives"` // labels -1
	Wrong     int     `json:"wrong"`     // of which true positives
	// Confidence is C(M)^(1/n), C(M) the product of the labeller's scores over all n true positives, by which AEVLP's theory judges a labeller; 0 where labels come from a file.
	Confidence float64 `json:"confidence"`
}

// quality counts an epoch's pseudo-labels.
type quality struct {
	ds     *data.Dataset
	usable []int
	metric.PseudoQuality
	negatives, wrong, trues int
	logs                    float64 // of the scores of true positives
	epoch                   int     // that is counted
}

// start begins to count; an epoch that was begun before a restart goes on.
func (q *quality) start(epoch int) error {
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

func (q *quality) record() *PseudoRecord {
	if q.Pseudo == 0 && q.Hidden == 0 && q.negatives == 0 {
		return nil
	}
	r := &PseudoRecord{PseudoQuality: q.PseudoQuality, Precision: 100 * q.PseudoQuality.Precision(), Recall: 100 * q.PseudoQuality.Recall(), F1: 100 * q.PseudoQuality.F1(), Negatives: q.negatives, Wrong: q.wrong}
	if q.trues > 0 {
		r.Confidence = math.Exp(q.logs / float64(q.trues))
	}
	return r
}

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

// newPseudo gives the labels of a file, or of an image-text model in the loop.
func newPseudo(ctx context.Context, s *session, usable []int) (estimator, error) {
	if s.c.Clip != "" {
		return newLabels(ctx, s, usable)
	}
	return newStored(s, usable)
}

// stored gives pseudo-labels that another program made.
type stored struct {
	none
	quality
	labels *torch.Tensor // [n, C] int8
	host   []int8        // the same
}

func newStored(s *session, usable []int) (*stored, error) {
	a, err := npy.Read(s.c.PseudoLabels)
	if err != nil {
		return nil, err
	}
	values, err := a.Float32()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.c.PseudoLabels, err)
	}
	n, c := s.ds.N(), s.ds.C()
	if len(a.Shape) != 2 || a.Shape[0] != int64(n) || a.Shape[1] != int64(c) {
		return nil, fmt.Errorf("%w: %s has shape %v, %s has %d images and %d classes", ErrData, s.c.PseudoLabels, a.Shape, s.ds.Name, n, c)
	}
	m := make([]int8, n*c)
	for i, x := range values {
		if x != 0 && x != 1 && x != -1 {
			return nil, fmt.Errorf("%w: %s: row %d, class %d is %v, want 1, 0 or -1", ErrData, s.c.PseudoLabels, i/c, i%c, x)
		}
		m[i] = int8(x)
	}
	host := s.ds.Gather(m, usable)
	return &stored{quality: quality{ds: s.ds, usable: usable}, labels: compute.Upload(s.device, host, len(usable), c), host: host}, nil
}

func (p *stored) start(epoch int) error         { return p.quality.start(epoch) }
func (p *stored) State() label.State            { return p.quality.State() }
func (p *stored) LoadState(s label.State) error { return p.quality.LoadState(s) }

func (p *stored) fill(b *loss.Batch, _ *view, at *torch.Tensor) error {
	b.Pseudo = p.labels.IndexSelect(0, at)
	return nil
}

func (p *stored) after(_ *loss.Batch, places []int) error {
	c := p.ds.C()
	given := make([]int8, 0, len(places)*c)
	for _, i := range places {
		given = append(given, p.host[i*c:(i+1)*c]...)
	}
	return p.add(places, given, nil)
}

// labels are made by an image-text model for each batch, of the views of that epoch: VLPL of the photo, mirrored as the classifier sees it, DAMP of tiles that are drawn anew.
//
// What a photo gets depends on seed, epoch and row alone, so a resumed run makes the same.
type labels struct {
	none
	quality
	ctx      context.Context // of the run, which creates and ends this
	ds       *data.Dataset
	src      data.RawSource
	model    *clip.Model
	labeller *vlm.Labeller
	device   torch.Device
	settings vlm.Settings
	// cosines of VLPL by place, plain and mirrored, which do not change; nil: not kept. seen says which are there.
	cosines [2][]float32
	seen    [2][]bool
	unread  map[int]bool         // places of photos that could not be read, which have their observed labels alone
	made    map[*loss.Batch]made // of the step in work
}

type made struct {
	pseudo []int8
	scores []float32
}

// keepCosines bounds the memory of VLPL's cosines.
const keepCosines = 2 << 30

func newLabels(ctx context.Context, s *session, usable []int) (_ *labels, err error) {
	src, ok := s.ds.Source.(data.RawSource)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no image files that an image-text model could look at; make labels beforehand (--pseudo-labels)", ErrData, s.ds.Name)
	}
	settings, err := s.c.labelSettings()
	if err != nil {
		return nil, err
	}
	if settings.Cache, err = vlm.TextCache(); err != nil {
		return nil, err
	}
	l := &labels{quality: quality{ds: s.ds, usable: usable}, ctx: ctx, ds: s.ds, src: src, device: s.device, settings: settings, made: map[*loss.Batch]made{}, unread: map[int]bool{}}
	if l.model, err = s.c.openClip(s.device); err != nil {
		return nil, err
	}
	s.ev.note("labels by " + strings.TrimSpace(l.model.Loaded().String()))
	if l.labeller, err = vlm.New(ctx, l.model, s.ds.Classes, settings); err != nil {
		l.model.Close()
		return nil, err
	}
	if source := l.labeller.Source(); source != "" {
		s.ev.note(source)
	}
	if settings.Method == vlm.VLPL {
		n := len(usable) * s.ds.C()
		for i := range l.cosines {
			if i > 0 && !*s.c.Flip {
				break
			}
			if 8*n <= keepCosines {
				l.cosines[i], l.seen[i] = make([]float32, n), make([]bool, len(usable))
			} else {
				s.ev.note(fmt.Sprintf("%d × %d cosines are too many to keep: photos are encoded anew in each epoch", len(usable), s.ds.C()))
				break
			}
		}
	}
	return l, nil
}

// Close frees the model.
func (l *labels) Close() error {
	l.model.Close()
	return nil
}

func (l *labels) start(epoch int) error {
	clear(l.made)
	return l.quality.start(epoch)
}

func (l *labels) State() label.State            { return l.quality.State() }
func (l *labels) LoadState(s label.State) error { return l.quality.LoadState(s) }

func (l *labels) fill(b *loss.Batch, v *view, _ *torch.Tensor) error {
	n, c := len(v.places), l.ds.C()
	epoch := max(v.epoch, 1)
	var observed []int8
	for _, p := range v.places {
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
		photos, broken, err := l.photos(v.places, epoch)
		if err != nil {
			return err
		}
		if l.settings.Method == vlm.VLPL {
			photos.Mirror = mirrored(v)
		}
		out, unread, err := l.labeller.Label(l.ctx, photos, observed)
		if err != nil {
			return err
		}
		m = made{out.Pseudo, out.Scores}
		for i, p := range v.places {
			if broken[i] != nil || unread[i] != nil {
				l.unread[p] = true
			}
		}
	}
	for i, p := range v.places {
		if l.unread[p] {
			clear(m.pseudo[i*c : (i+1)*c])
			clear(m.scores[i*c : (i+1)*c])
		}
	}
	l.made[b] = m
	b.Pseudo = compute.Upload(l.device, m.pseudo, n, c)
	return nil
}

// mirrored says which images of a view are.
func mirrored(v *view) []bool {
	m := make([]bool, len(v.places))
	for i, c := range v.crops() {
		m[i] = c.Flip
	}
	return m
}

// photos are the files of some places; broken has the reason of each that could not be read.
func (l *labels) photos(places []int, epoch int) (p vlm.Photos, broken []error, err error) {
	p = vlm.Photos{Rows: make([]int, len(places)), Files: make([][]byte, len(places)), Epoch: epoch}
	broken = make([]error, len(places))
	for i, at := range places {
		p.Rows[i] = l.usable[at]
		p.Files[i], broken[i] = l.src.ReadFile(p.Rows[i], nil)
	}
	return p, broken, l.ctx.Err()
}

// stored are the cosines of a view [B, C]; those that are not there yet are made.
func (l *labels) stored(v *view) ([]float32, error) {
	c, turned := l.ds.C(), mirrored(v)
	for _, turn := range []int{0, 1} {
		for i, p := range v.places {
			if turned[i] == (turn == 1) && !l.seen[turn][p] {
				if err := l.encode(p/cosineBlock*cosineBlock, turn); err != nil {
					return nil, err
				}
			}
		}
	}
	out := make([]float32, 0, len(v.places)*c)
	for i, p := range v.places {
		from := l.cosines[0]
		if turned[i] {
			from = l.cosines[1]
		}
		out = append(out, from[p*c:(p+1)*c]...)
	}
	return out, nil
}

// cosineBlock is how many neighbouring places are encoded together: the last bits of an encoding depend on what is encoded with it, and a resumed run is to have the same.
const cosineBlock = 8

// encode keeps the cosines of a block of places.
func (l *labels) encode(from, turn int) error {
	c := l.ds.C()
	var places []int
	for p := from; p < min(from+cosineBlock, len(l.usable)); p++ {
		places = append(places, p)
	}
	photos, broken, err := l.photos(places, 0)
	if err != nil {
		return err
	}
	photos.Mirror = slices.Repeat([]bool{turn == 1}, len(places))
	global, _, unread, err := l.labeller.Cosines(l.ctx, photos)
	if err != nil {
		return err
	}
	values := torch.ToSlice[float32](global)
	global.Free()
	for i, p := range places {
		copy(l.cosines[turn][p*c:(p+1)*c], values[i*c:(i+1)*c])
		l.seen[turn][p] = true
		l.unread[p] = broken[i] != nil || unread[i] != nil
	}
	return nil
}

func (l *labels) after(b *loss.Batch, places []int) error {
	m, ok := l.made[b]
	clear(l.made)
	if !ok {
		return nil
	}
	return l.add(places, m.pseudo, m.scores)
}

// clipTypes are the choices of Config.ClipPrecision.
var clipTypes = map[string]torch.DType{"": torch.Float32, "fp32": torch.Float32, "bf16": torch.BFloat16, "fp16": torch.Float16}

// openClip opens the image-text model of a run.
func (c *Config) openClip(d torch.Device) (*clip.Model, error) {
	o := clip.Options{DType: clipTypes[c.ClipPrecision], Device: d}
	if c.Clip == BuiltinClip {
		return clip.OpenBuiltin(o)
	}
	return clip.Open(c.Clip, o)
}

// labelSettings are the settings of the labeller.
func (c *Config) labelSettings() (vlm.Settings, error) {
	method := vlm.DAMP
	if e, err := loss.Lookup(c.Method); err == nil && e.Estimator == "vlpl" {
		method = vlm.VLPL
	}
	s, err := vlm.Preset(method, c.Preset, c.Form)
	if err != nil {
		return s, err
	}
	s.Seed = c.Seed
	for part := range strings.FieldsFuncSeq(c.PseudoOptions, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return s, fmt.Errorf("pseudo_options %q: want NAME=VALUE, for instance tau=0.03", part)
		}
		if err := s.Assign(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return s, err
		}
	}
	if c.TextFeatures != "" {
		s.TextFeatures = c.TextFeatures
	}
	return s, s.Check()
}

// resolvePseudo says where pseudo-labels come from.
func (c *Config) resolvePseudo(e *loss.Entry) error {
	fail := func(format string, a ...any) error { return &ConfigError{Msg: fmt.Sprintf(format, a...)} }
	if _, ok := clipTypes[c.ClipPrecision]; !ok {
		return fail("clip_precision %q is none of fp32, bf16, fp16", c.ClipPrecision)
	}
	if e.Needs&loss.PseudoLabels == 0 {
		if c.PseudoOptions != "" || c.TextFeatures != "" {
			return fail("pseudo_options and text_features are for methods with pseudo-labels, which %s has not", e.ID)
		}
		return nil
	}
	if c.PseudoLabels == "" && c.Clip == "" && c.Data == ShapesName {
		c.Clip = BuiltinClip
	}
	switch {
	case c.PseudoLabels == "" && c.Clip == "":
		return fail("%s needs pseudo-labels from an image-text model; give --clip MODEL to make them while training, or --pseudo-labels FILE.npy with 1, 0 and -1 for each image and class (spml pseudo-label makes one)", e.ID)
	case c.PseudoLabels != "" && c.Clip != "":
		return fail("pseudo-labels come from --clip or from --pseudo-labels, not from both")
	case c.PseudoLabels != "":
		if c.PseudoOptions != "" || c.TextFeatures != "" {
			return fail("pseudo_options and text_features are for --clip; a file's labels are done")
		}
		return nil
	}
	def(&c.ClipPrecision, "fp32")
	if _, err := c.labelSettings(); err != nil {
		return fail("%v", err)
	}
	return nil
}

// absoluteOptions makes the paths in pseudo-label options independent of the working folder.
func absoluteOptions(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	var parts []string
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		if n := strings.TrimSpace(name); (n == "text_features" || n == "relation") && value != "" {
			a, err := filepath.Abs(strings.TrimSpace(value))
			if err != nil {
				return "", err
			}
			part = n + "=" + a
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ","), nil
}
