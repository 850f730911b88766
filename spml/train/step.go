package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// takeStep is one step of the optimiser on a batch, and the number of its images in all processes. Where memory runs
// out, the batch is cut into halves until it fits; the step stays the same.
func (t *trainer) takeStep(ctx context.Context, v *view, flip []bool) (x float64, images int, err error) {
	if t.procs != nil {
		return t.sharedStep(ctx, v, flip)
	}
	err = t.fitting(v, func() (err error) { x, err = t.attempt(v); return err })
	return x, len(v.places), err
}

// fitting runs f, which computes with the images of v, in a scope, again with fewer images at a time where memory runs
// out.
func (t *trainer) fitting(v *view, f func() error) error {
	for {
		t.seedDropout()
		var bad error
		err := torch.Try(func() {
			torch.Scope(func(a *torch.Arena) {
				t.arena = a
				t.now.drop()
				bad = f()
			})
		})
		if err == nil {
			return bad
		}
		if !t.halve(v, err) {
			return err
		}
	}
}

// seedDropout makes dropout's draws, which come from libtorch's generators, those of the step and the process: a
// resumed run draws the same, and a checkpoint holds no state of a card's generator.
func (t *trainer) seedDropout() {
	if t.c.Model.Head != config.HeadLinear || !t.onCPU() {
		t.seed(t.procs.Rank())
	}
}

func (t *trainer) seed(rank int) {
	torch.ManualSeed(int64(random.Mix(uint64(t.c.Run.Seed), uint64(t.p.Step)+uint64(rank)<<40) >> 1))
}

// halve takes half of the images at a time from here on, where an error of a pass over v is that memory ran out and
// that helps.
func (t *trainer) halve(v *view, err error) bool {
	n := len(v.places)
	if t.p.Micro > 0 {
		n = min(n, t.p.Micro)
	}
	if !errors.Is(err, torch.ErrOutOfMemory) || n < 2 || t.latent || t.c.Model.Mode == config.Frozen ||
		t.c.Optim.InBackward ||
		t.entry.Needs&loss.StrongView != 0 ||
		t.synced {
		return false
	}
	t.p.Micro = (n + 1) / 2
	t.ev.Say(fmt.Sprintf("out of memory at step %d: from here on %d images at a time, with the gradients of a batch "+
		"added up%s", t.p.Step+1, t.p.Micro, t.batchNormNote()))
	return true
}

func (t *trainer) batchNormNote() string {
	if t.c.Model.BatchNorm == config.BatchNormLive {
		return " (live batch normalisation sees the smaller groups)"
	}
	return ""
}

// part is what one piece of a batch left for the estimator.
type part struct {
	v *view
	b *loss.Batch
}

// attempt does a step; without OptimizerInBackward it changes nothing that lasts before the optimiser's step.
func (t *trainer) attempt(v *view) (float64, error) {
	if t.quick {
		if x, ok, err := t.quickStep(v); ok || err != nil {
			return x, err
		}
	}
	t.step.Optimizer.ZeroGrad()
	if t.c.Optim.InBackward {
		defer optim.InBackward(t.step.Optimizer)()
	}
	var done []part
	var x float64
	var err error
	n := len(v.places)
	if micro := t.p.Micro; micro > 0 && micro < n && !t.latent {
		x, done, err = t.pieces(v, micro)
	} else {
		var b *loss.Batch
		if b, x, err = t.backward(v, 1); err == nil {
			done = []part{{v, b}}
		}
	}
	if err != nil {
		return 0, err
	}
	return x, t.update(done)
}

// update takes the optimiser's step on the gradients that are there, and lets the estimator, the average and the record
// of scores follow.
func (t *trainer) update(done []part) error {
	if fault := faults.beforeStep; fault != nil {
		fault(t)
	}
	steps := make([]*label.Step, len(done))
	for i, p := range done {
		steps[i] = p.v.step
	}
	old := t.scale()
	took, err := t.step.Update(steps...)
	if err != nil {
		return err
	}
	if !took {
		t.skipped(old)
	}
	if t.ema != nil && took {
		t.ema.Update()
	}
	return t.countStep(done)
}

// faults lets tests break a step.
var faults struct {
	beforeStep func(t *trainer)
	beforePart func(images int)
}

// pieces computes the gradients of a batch in parts of at most micro images.
func (t *trainer) pieces(v *view, micro int) (x float64, done []part, err error) {
	n := len(v.places)
	if !t.entry.WholeBatch && t.c.Method.GroupWeight == 0 { // photos of a group move its scores together
		for at := 0; at < n; at += micro {
			p := v.part(at, min(at+micro, n))
			share := float64(len(p.places)) / float64(n)
			if t.entry.Forms[t.c.Method.Form].Reduction == loss.Sum {
				share = 1
			}
			b, y, err := t.backward(p, share)
			if err != nil {
				return 0, nil, err
			}
			x += y * share
			done = append(done, part{p, b})
		}
		return x, done, nil
	}
	// The loss sees the whole batch: logits first, then its gradient by them, then the parts again with it.
	var pieces []*torch.Tensor
	torch.NoGrad(func() {
		for at := 0; at < n; at += micro {
			p := v.part(at, min(at+micro, n))
			var b loss.Batch
			if err = t.forward(p, t.places(p), &b); err != nil {
				return
			}
			pieces = append(pieces, b.Logits)
		}
	})
	if err != nil {
		return 0, nil, err
	}
	z := torch.Cat(pieces, 0).Detach().SetRequiresGrad(true)
	whole := &loss.Batch{Logits: z}
	value, x, err := t.value(v, t.places(v), whole, 1)
	if err != nil {
		return 0, nil, err
	}
	t.step.Backward(value)
	g := z.Grad()
	for at := 0; at < n; at += micro {
		end := min(at+micro, n)
		p := v.part(at, end)
		var b loss.Batch
		if err := t.forward(p, t.places(p), &b); err != nil {
			return 0, nil, err
		}
		b.Logits.Backward(torch.WithGradient(g.Slice(0, at, end, 1)))
	}
	return x, []part{{v, whole}}, nil
}

// backward adds share times the gradient of a view's loss to the parameters'.
func (t *trainer) backward(v *view, share float64) (*loss.Batch, float64, error) {
	b := &loss.Batch{}
	at := t.places(v)
	if err := t.forward(v, at, b); err != nil {
		return nil, 0, err
	}
	value, x, err := t.value(v, at, b, share)
	if err != nil {
		return nil, 0, err
	}
	if share != 1 {
		value = value.MulScalar(share)
	}
	t.step.Backward(value)
	return b, x, nil
}

func (t *trainer) forward(v *view, at *torch.Tensor, b *loss.Batch) error {
	if fault := faults.beforePart; fault != nil {
		fault(len(v.places))
	}
	return t.l.forward(v, at, b)
}

// places are those of a view on the device.
func (t *trainer) places(v *view) *torch.Tensor {
	return placesOn(t.device, v.places)
}

// value is the loss of a batch whose logits are there; a number that is not finite is an error, written to nan.json.
// share is the part of the batch that v is.
func (t *trainer) value(v *view, at *torch.Tensor, b *loss.Batch, share float64) (*torch.Tensor, float64, error) {
	value, err := t.step.Value(t.stepOf(v, at, b))
	if err != nil {
		return nil, 0, err
	}
	if t.late {
		return value, 0, t.sendLoss(v, value, share)
	}
	x := value.Item()
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, 0, t.notFinite(v, value, x, t.p.Step+1)
	}
	return value, x, nil
}

// stepOf is a view as the method sees it.
func (t *trainer) stepOf(v *view, at *torch.Tensor, b *loss.Batch) *label.Step {
	v.step = &label.Step{
		Batch: b, Places: v.places, At: at, Epoch: t.p.Epoch, Weak: v.weak, Strong: v.strong, Masked: v.masked,
		LR: t.step.Optimizer.Groups()[t.body].LR,
	}
	if v.flip != nil {
		v.step.Flip = v.flip[v.from : v.from+len(v.places)]
	}
	return v.step
}

// nanReport is nan.json.
type nanReport struct {
	Epoch     int                `json:"epoch"`
	Step      int                `json:"step"` // that failed, from 1
	Loss      string             `json:"loss"`
	Samples   []string           `json:"samples"`
	LR        []float64          `json:"lr"` // of the optimiser's groups
	Gradients map[string]float64 `json:"gradient_norms"`
	NotFinite []string           `json:"parameters_not_finite"`
	LastGood  string             `json:"last_checkpoint,omitempty"`
}

// notFinite writes nan.json and makes the error. value is nil where the step, counted from 1, is over: the gradients
// are then those of the step after it.
func (t *trainer) notFinite(v *view, value *torch.Tensor, x float64, step int) error {
	rows := t.l.usable()
	names := make([]string, len(v.places))
	for i, p := range v.places {
		names[i] = t.ds.Images[rows[p]]
	}
	r := nanReport{Epoch: t.p.Epoch, Step: step, Loss: fmt.Sprint(x), Samples: names, Gradients: map[string]float64{}, LastGood: t.saver.newest}
	for _, g := range t.step.Optimizer.Groups() {
		r.LR = append(r.LR, g.LR)
	}
	if value != nil {
		_ = torch.Try(func() { value.Backward() }) // a loss without gradient still gets its report
	}
	for key, p := range t.l.state() {
		if !p.DType().IsFloat() {
			continue
		}
		if n := norm(p.Detach()); math.IsNaN(n) || math.IsInf(n, 0) {
			r.NotFinite = append(r.NotFinite, key)
		}
		if g := p.Grad(); g != nil {
			n := norm(g)
			if math.IsNaN(n) || math.IsInf(n, 0) {
				n = -1 // JSON has no NaN; -1 is not finite
			}
			r.Gradients[key] = n
		}
	}
	err := fmt.Errorf("%w (%v) in epoch %d, step %d, batch of %d images starting with %v; lower --lr", ErrNotFinite, x, t.p.Epoch, step, len(names), names[:min(3, len(names))])
	if t.dir.Path() == "" {
		return err
	}
	if e := t.dir.JSON("nan.json", r); e != nil {
		return errors.Join(err, e)
	}
	return fmt.Errorf("%w; nan.json in the run directory has the details", err)
}
