package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/train/internal/ondevice"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// estimator is what changes a method's labels during training. Tables are indexed by place: the position among the training rows in use.
type estimator interface {
	label.Keeper
	// start precedes an epoch's first batch.
	start(epoch int) error
	// fill puts what the loss needs into a batch of places; at holds them as a tensor.
	fill(b *loss.Batch, v *view, at *torch.Tensor) error
	// after follows the optimiser's step.
	after(b *loss.Batch, places []int) error
	// end follows an epoch; scores are σ(z) of all places without augmentation, [n, C].
	end(epoch int, scores func() (*torch.Tensor, error)) error
	// groups are parameters that the optimiser trains beside the model's, with their learning rates.
	groups() []group
}

// group are parameters with a learning rate.
type group struct {
	params []*torch.Tensor
	lr     float64
}

// none is the estimator of methods without one.
type none struct{}

func (none) start(int) error                              { return nil }
func (none) fill(*loss.Batch, *view, *torch.Tensor) error { return nil }
func (none) after(*loss.Batch, []int) error               { return nil }
func (none) end(int, func() (*torch.Tensor, error)) error { return nil }
func (none) groups() []group                              { return nil }
func (none) State() label.State                           { return label.State{} }
func (none) LoadState(label.State) error                  { return nil }

// newEstimator makes the estimator of a method for the training rows in use. features are theirs where they do not change, else nil.
func newEstimator(ctx context.Context, s *session, e *loss.Entry, v loss.Values, usable []int, features *torch.Tensor) (estimator, error) {
	var observed *torch.Tensor
	if s.ds.Observed != nil {
		observed = compute.Upload(s.device, s.ds.Gather(s.ds.Observed, usable), len(usable), s.ds.C())
	}
	switch e.Estimator {
	case "schedule":
		if v["schedule"] == loss.ScheduleLearned {
			if s.procs != nil {
				return nil, &ConfigError{Msg: "schedule=2: the schedule's parameters are learned in a single process; start it without a launcher"}
			}
			return newLearned(v, s.c.HeadLR)
		}
	case "role":
		drawn := roleTable(s, usable)
		t, err := linearInit(s, usable, drawn)
		if t == nil && err == nil {
			t, err = label.RoleFromLogits(drawn)
		}
		if err == nil {
			t.U = s.to(t.U.Detach()).SetRequiresGrad(true)
		}
		return &role{role: t, lr: s.c.HeadLR}, err
	case "apl":
		t, err := label.NewAPL(observed, torch.Float32, label.APLConfig{Theta: v["theta"], Epochs: s.c.Epochs, Warmup: int(v["warmup"])})
		return &apl{APL: t, epochs: s.c.Epochs}, err
	case "large-loss":
		t, err := label.NewLargeLoss(observed)
		return &largeLoss{LargeLoss: t}, err
	case "threshold":
		t, err := label.NewThreshold(observed, v["theta"], int(v["warmup"]))
		return &raised{Threshold: t, n: len(usable)}, err
	case "expected-negative":
		return newExpected(observed, v, 0)
	case "heat-maps":
		side := heatSide
		if s.c.Mode == Frozen {
			side = 1
			s.ev.note("score maps of pooled features have one position, so the spatial consistency is that of the scores (en-cl)")
		}
		return newExpected(observed, v, side)
	case "queue":
		return newQueue(s)
	case "vlpl", "damp":
		return newPseudo(ctx, s, usable)
	case "smile":
		if e.ID == "smile-classifier" {
			return newSmile(s, features)
		}
	}
	return none{}, nil
}

// roleTable draws ROLE's table as the reference runs do: uniform by numpy's generator with the seed plus 100000, observed entries set.
func roleTable(s *session, usable []int) *torch.Tensor {
	const unknown, known = 0.4054651081081642, 5.293304824724492 // logits of 0.6 and 0.995
	g := random.New(s.c.Seed + 100000)
	observed := s.ds.Gather(s.ds.Observed, usable)
	u := make([]float32, len(observed))
	for i, y := range observed {
		u[i] = float32(g.Uniform(-unknown, unknown))
		if y != 0 {
			u[i] = float32(y) * known
		}
	}
	return torch.FromSlice(u, len(usable), s.ds.C())
}

// learned holds GR's w, b, μ, σ as parameters of the optimiser, with the classifier's learning rate.
type learned struct {
	none
	*label.Schedule
	lr float64
}

func newLearned(v loss.Values, lr float64) (*learned, error) {
	points, err := loss.ScheduleOf(v)
	if err != nil {
		return nil, err
	}
	s, err := label.NewSchedule(points)
	if err == nil {
		err = s.Train(torch.Float32)
	}
	return &learned{Schedule: s, lr: lr}, err
}

func (l *learned) start(epoch int) error                              { l.Step(epoch); return nil }
func (l *learned) fill(b *loss.Batch, _ *view, _ *torch.Tensor) error { l.Fill(b); return nil }
func (l *learned) groups() []group                                    { return []group{{[]*torch.Tensor{l.Parameter}, l.lr}} }
func (l *learned) State() label.State                                 { return l.Schedule.State() }
func (l *learned) LoadState(s label.State) error                      { return l.Schedule.LoadState(s) }

type role struct {
	none
	role *label.Role
	lr   float64
}

func (r *role) fill(b *loss.Batch, _ *view, at *torch.Tensor) error {
	b.Estimate = r.role.U.IndexSelect(0, at)
	return nil
}
func (r *role) groups() []group {
	return []group{{[]*torch.Tensor{r.role.U}, label.RoleLRFactor * r.lr}}
}
func (r *role) estimates() *torch.Tensor      { return r.role.Estimates() }
func (r *role) State() label.State            { return r.role.State() }
func (r *role) LoadState(s label.State) error { return r.role.LoadState(s) }

type apl struct {
	*label.APL
	epochs int
}

func (a *apl) start(int) error                { return nil }
func (a *apl) after(*loss.Batch, []int) error { return nil }
func (a *apl) groups() []group                { return nil }
func (a *apl) fill(b *loss.Batch, _ *view, at *torch.Tensor) error {
	b.Labels = a.Labels.IndexSelect(0, at)
	return nil
}

// end labels; the round after the last epoch would serve no training.
func (a *apl) end(epoch int, scores func() (*torch.Tensor, error)) error {
	if !a.Due(epoch) || epoch >= a.epochs {
		return nil
	}
	p, err := scores()
	if err == nil {
		_, err = a.Update(p)
	}
	return err
}

type largeLoss struct {
	*label.LargeLoss
	none
	flips *torch.Tensor
}

func (l *largeLoss) State() label.State            { return l.LargeLoss.State() }
func (l *largeLoss) LoadState(s label.State) error { return l.LargeLoss.LoadState(s) }
func (l *largeLoss) fill(b *loss.Batch, _ *view, at *torch.Tensor) error {
	b.Observed = l.Labels.IndexSelect(0, at)
	l.flips = nil
	b.Report = func(part string, v *torch.Tensor) {
		if part == "permanent_flips" {
			l.flips = v
		}
	}
	return nil
}
func (l *largeLoss) after(_ *loss.Batch, places []int) error {
	if l.flips == nil {
		return nil
	}
	return l.Flip(places, l.flips)
}

// raised is MIME's: positives above θ stay.
type raised struct {
	*label.Threshold
	none
	n int
}

func (t *raised) State() label.State            { return t.Threshold.State() }
func (t *raised) LoadState(s label.State) error { return t.Threshold.LoadState(s) }
func (t *raised) fill(b *loss.Batch, _ *view, at *torch.Tensor) error {
	b.Observed = t.Labels.IndexSelect(0, at)
	return nil
}
func (t *raised) end(epoch int, scores func() (*torch.Tensor, error)) error {
	if !t.Due(epoch) {
		return nil
	}
	p, err := scores()
	if err != nil {
		return err
	}
	rows := make([]int, t.n)
	for i := range rows {
		rows[i] = i
	}
	return t.Update(rows, p)
}

// heatSide is the side of EN+SCL's maps, the paper's.
const heatSide = 28

// expected are EN's expected negatives, chosen once an epoch, and the averages that they and the consistency terms rest on.
type expected struct {
	none
	observed *torch.Tensor
	average  *label.ScoreAverage
	heat     *label.HeatMaps // of en-scl
	counts   []int
	mask     *torch.Tensor // [n, C] int8, of the present epoch
	began    float64       // the epoch of mask
	crops    []label.Crop
}

func newExpected(observed *torch.Tensor, v loss.Values, side int) (*expected, error) {
	e := &expected{observed: observed}
	var err error
	if e.average, err = label.NewScoreAverage(observed, torch.Float32, v["mu"]); err != nil {
		return nil, err
	}
	if e.counts, err = label.ExpectedPositiveCounts(observed, v["k"]); err != nil {
		return nil, err
	}
	e.mask = observed.EqScalar(0).ToDType(torch.Int8) // epoch 1 is AN's
	if side > 0 {
		e.heat, err = label.NewHeatMaps(observed.ToDevice(torch.CPU), side, v["mu"]) // bytes in the host's memory, which Go reads
	}
	return e, err
}

func (e *expected) start(epoch int) error {
	if epoch == 1 || int(e.began) == epoch {
		return nil
	}
	m, err := label.ExpectedNegatives(e.average.H, e.observed, e.counts)
	if err == nil {
		e.mask.Copy_(m)
		m.Free()
		e.began = float64(epoch)
	}
	return err
}

func (e *expected) fill(b *loss.Batch, v *view, at *torch.Tensor) error {
	b.Negative, b.Average = e.mask.IndexSelect(0, at), e.average.H.IndexSelect(0, at)
	if e.heat == nil {
		return nil
	}
	if b.Maps == nil {
		return fmt.Errorf("train: the model gives no score maps")
	}
	e.crops = v.crops()
	var err error
	if b.Heat, err = e.heat.Lookup(v.places, e.crops, b.Maps.Size(2)); err == nil {
		b.Heat = b.Heat.ToDevice(b.Maps.Device())
	}
	return err
}

func (e *expected) after(b *loss.Batch, places []int) error {
	if e.heat != nil {
		if err := e.heat.Update(places, e.crops, b.Maps.Detach().Sigmoid()); err != nil {
			return err
		}
	}
	z := b.Logits
	if z == nil {
		z = b.Maps.MeanDim([]int{2, 3}, false)
	}
	return e.average.Update(places, z.Detach().Sigmoid())
}

func (e *expected) State() label.State {
	s := e.average.State()
	s.Tensors["mask"], s.Numbers["began"] = e.mask, e.began
	if e.heat != nil {
		s.Tensors["heat"] = e.heat.Maps
	}
	return s
}

func (e *expected) LoadState(s label.State) error {
	began, ok := s.Numbers["began"]
	mask := s.Tensors["mask"]
	if !ok || mask == nil || !slices.Equal(mask.Shape(), e.mask.Shape()) {
		return fmt.Errorf("train: the state holds no expected negatives for this data set")
	}
	if e.heat != nil {
		if err := e.heat.LoadState(label.State{Tensors: map[string]*torch.Tensor{"maps": s.Tensors["heat"]}}); err != nil {
			return err
		}
	}
	if err := e.average.LoadState(s); err != nil {
		return err
	}
	e.mask.Copy_(mask)
	e.began = began
	return nil
}

// smile is the tabular label enhancement: it takes the encoder's step after each of the classifier's.
type smile struct {
	none
	net    *label.SMILE
	loss   loss.Loss
	opt    *optim.Adam
	logits *torch.Tensor // the encoder's for the batch
}

func newSmile(s *session, features *torch.Tensor) (*smile, error) {
	if features == nil {
		return nil, fmt.Errorf("train: label enhancement needs features that do not change")
	}
	const neighbours, temperature = 3, 1 // the released code's
	net, err := label.NewSMILE(features, s.ds.C(), neighbours, temperature, s.torch)
	if err != nil {
		return nil, err
	}
	l, err := loss.New(encoderOnly, s.c.Preset, nil, loss.Options{LogEps: s.c.LogEps, Impl: ondevice.Losses})
	if err != nil {
		return nil, err
	}
	return &smile{net: net, loss: l, opt: optim.NewAdam(net.Parameters(), optim.LR(s.c.HeadLR))}, nil
}

func (s *smile) fill(b *loss.Batch, v *view, _ *torch.Tensor) (err error) {
	if s.logits, err = s.net.Encode(v.places); err != nil {
		return err
	}
	b.Soft, err = s.net.Enhanced(s.logits)
	return err
}

func (s *smile) after(b *loss.Batch, places []int) error {
	r, err := s.net.Reconstruct(places, s.logits)
	if err != nil {
		return err
	}
	v, err := s.loss.Value(loss.Batch{Logits: s.logits, Observed: b.Observed, Reconstruction: r})
	if err != nil {
		return err
	}
	s.opt.ZeroGrad()
	v.Backward()
	s.opt.Step()
	return nil
}

func (s *smile) State() label.State {
	st := s.net.State()
	o := s.opt.StateDict()
	out := label.State{Tensors: map[string]*torch.Tensor{}}
	for k, t := range st.Tensors {
		out.Tensors["net."+k] = t
	}
	for k, t := range o.Tensors {
		out.Tensors["opt."+k] = t
	}
	return out
}

func (s *smile) LoadState(st label.State) error {
	all := nn.StateDict(st.Tensors)
	net, o := map[string]*torch.Tensor{}, s.opt.StateDict()
	o.Tensors = map[string]*torch.Tensor{}
	for _, k := range all.Keys() {
		switch {
		case len(k) > 4 && k[:4] == "net.":
			net[k[4:]] = all[k]
		case len(k) > 4 && k[:4] == "opt.":
			o.Tensors[k[4:]] = all[k]
		}
	}
	if err := s.net.LoadState(label.State{Tensors: net}); err != nil {
		return err
	}
	return s.opt.LoadStateDict(o)
}
