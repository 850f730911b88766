package golden

import (
	"fmt"
	"regexp"

	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// Training runs of newer methods by their released code, on a small network over drawn pictures: the list trajectories
// of a file of cases.

// runs gives each run of a file with its id.
func runs(f *File, do func(id string, n node) error) error {
	if _, ok := f.Top["trajectories"]; !ok {
		return nil
	}
	return guard(func() error {
		for _, n := range (node{f.Path, any(f.Top)}).get("trajectories").list() {
			if err := do(n.text("id", n.at), n); err != nil {
				return err
			}
		}
		return nil
	})
}

// scheme are the results of a run, or of each of its schemes ("" is the run itself).
func scheme(of any, name string) any {
	if name == "" {
		return of
	}
	m, _ := of.(map[string]any)
	return m[name]
}

// checkRuns replays every run in float64, or in float32 where that is asked for.
func checkRuns(f *File, o Options, r *Report) error {
	return runs(f, func(id string, n node) error {
		schemes, run := runOf(n)
		if run == nil {
			r.Skip(id)
			return nil
		}
		for _, s := range schemes {
			where := id + " " + s
			got, err := replay(n, s, run, o)
			if err != nil {
				r.Case("trajectories", where, err)
				continue
			}
			if o.DType == torch.Float32 {
				want := map[string]any{"steps": losses(scheme(n.get("float32_loss_per_step").v, s))}
				r.Case("trajectories", where+" float32", Compare(want, got, func(string) Tolerance {
					return Tolerance{1e-6,
						2e-5}
				}))
				continue
			}
			tolerance := func(path string) Tolerance {
				switch {
				case matches(path, "val_map_per_epoch", "test_map"):
					return Tolerance{1e-6, 0}
				case matches(path, "state_after_epoch_1", "state_after_last_epoch"):
					return Tolerance{1e-8, 0}
				}
				return Tolerance{1e-9, 1e-9}
			}
			r.Case("trajectories", where, Compare(scheme(n.get("float64").v, s), got, tolerance))
		}
		return nil
	})
}

func evalRuns(f *File, o Options, emit func(string, any) error) error {
	return runs(f, func(id string, n node) error {
		schemes, run := runOf(n)
		if run == nil {
			return fmt.Errorf("%s: unknown run", id)
		}
		for _, s := range schemes {
			got, err := replay(n, s, run, o)
			if err != nil {
				return fmt.Errorf("%s %s: %w", id, s, err)
			}
			if s != "" {
				id += "/" + s
			}
			if err := emit(id, got); err != nil {
				return err
			}
		}
		return nil
	})
}

// losses are float32's losses in the shape of steps.
func losses(v any) []any {
	var steps []any
	l, _ := v.([]any)
	for _, x := range l {
		steps = append(steps, map[string]any{"loss": x})
	}
	return steps
}

// runOf finds what takes the steps of a run, by its id.
func runOf(n node) (schemes []string, run func(p *pictures, scheme string) error) {
	switch id := n.text("id", ""); {
	case regexp.MustCompile(`^ignore_resnet/`).MatchString(id):
		return []string{""}, ignoreRun
	case regexp.MustCompile(`^boostlu_ll/`).MatchString(id):
		return []string{"LL-R", "LL-Ct", "LL-Cp"}, boostRun
	}
	return nil, nil
}

func replay(n node, scheme string, run func(*pictures, string) error, o Options) (got map[string]any, err error) {
	if o.DType == torch.BFloat16 {
		return nil, fmt.Errorf("runs are replayed in float64 or float32")
	}
	err = guard(func() (err error) {
		torch.Scope(func(*torch.Arena) {
			p := newPictures(n, o)
			if err = run(p, scheme); err == nil {
				got, err = p.epochs()
			}
		})
		return err
	})
	return got, err
}

// pictures is the problem of a run: a network of one convolution and a head of 1×1, and its data.
type pictures struct {
	o     Options
	hyper node

	x, strong, labels, observed, xVal, labelsVal *torch.Tensor
	order                                        [][]int
	batch                                        int

	conv *nn.Conv2d
	norm *nn.BatchNorm2d
	head *nn.Conv2d

	stepper *train.Stepper
	alpha   float64 // of the class maps
	// record describes a step that was taken, afterEpoch adds to the run's results.
	record     func(st *label.Step) map[string]any
	afterEpoch func(out map[string]any)
}

var prefixed = regexp.MustCompile(`prefix '([^']*)'`)

func newPictures(n node, o Options) *pictures {
	p := &pictures{o: o, hyper: n.get("hyperparameters"), alpha: 1}
	d := n.get("data")
	read := func(name string) *torch.Tensor { return d.get(name).tensor(o.DType) }
	p.labels, p.observed, p.labelsVal = read("labels"), read("labels_observed"), read("labels_val")
	pattern := d.get("pattern").filled(torch.Float64)
	made := func(noise string, labels *torch.Tensor) *torch.Tensor {
		return d.get(noise).filled(torch.Float64).Add(torch.Einsum("nc,cdhw->ndhw",
			[]*torch.Tensor{labels.ToDType(torch.Float64), pattern}))
	}
	x := made("train_noise", p.labels)
	if d.has("strong_noise") {
		p.strong = x.MulScalar(0.8).Add(d.get("strong_noise").filled(torch.Float64)).ToDType(o.DType)
	}
	p.x, p.xVal = x.ToDType(o.DType), made("val_noise", p.labelsVal).ToDType(o.DType)
	for _, e := range d.get("order").list() {
		p.order = append(p.order, e.wholes())
	}
	p.batch = p.hyper.get("batch").whole()

	net := n.get("network")
	prefix := prefixed.FindStringSubmatch(net.text("fill", ""))
	if prefix == nil {
		net.fail("the fill names no prefix")
	}
	width, classes, in := net.get("width").whole(), net.get("classes").whole(), net.get("image").wholes()
	p.conv = nn.NewConv2d(in[0], width, 3, nn.Stride(2), nn.Padding(1), nn.Bias(false), nn.DType(o.DType))
	p.norm = nn.NewBatchNorm2d(width, nn.DType(o.DType))
	p.head = nn.NewConv2d(width, classes, 1, nn.DType(o.DType))
	torch.NoGrad(func() {
		for k, t := range p.state() {
			scale, offset := 0.8, 0.0
			switch k {
			case "feature_extractor.1.num_batches_tracked":
				continue
			case "feature_extractor.1.weight", "feature_extractor.1.running_var":
				scale, offset = 1, 1
			}
			t.Copy_(torch.FromSlice(goldenfill.Values(prefix[1]+k, t.Numel(), offset,
				scale)).View(t.Shape()...).ToDType(t.DType()))
		}
	})

	body, head := append(nn.Parameters(p.conv), nn.Parameters(p.norm)...), nn.Parameters(p.head)
	lr := p.hyper.get("lr").number()
	opt := optim.NewAdam(body, optim.LR(lr))
	opt.AddGroup(head, optim.LR(lr*p.hyper.get("lr_mult").number()))
	p.stepper = &train.Stepper{Estimator: label.None{}, Optimizer: opt, Observed: p.observed, Full: p.labels,
		Parameters: append(body, head...)}
	return p
}

// state are the network's tensors under the names of the released code.
func (p *pictures) state() map[string]*torch.Tensor {
	return map[string]*torch.Tensor{
		"feature_extractor.0.weight": p.conv.Weight, "feature_extractor.1.weight": p.norm.Weight,
		"feature_extractor.1.bias":         p.norm.Bias,
		"feature_extractor.1.running_mean": p.norm.RunningMean, "feature_extractor.1.running_var": p.norm.RunningVar,
		"feature_extractor.1.num_batches_tracked": p.norm.NumBatchesTracked, "onebyone_conv.weight": p.head.Weight,
		"onebyone_conv.bias": p.head.Bias,
	}
}

func (p *pictures) states() map[string]any {
	out := map[string]any{}
	for k, t := range p.state() {
		out[k] = t
	}
	return plain(out).(map[string]any)
}

// maps are the class maps [B, C, h, w].
func (p *pictures) maps(x *torch.Tensor) *torch.Tensor {
	return p.head.Forward(p.norm.Forward(p.conv.Forward(x)).Relu())
}

func (p *pictures) logits(x *torch.Tensor) *torch.Tensor {
	return decoder.Boost(p.maps(x), p.alpha).MeanDim([]int{2, 3}, false)
}

func (p *pictures) epochs() (map[string]any, error) {
	out := map[string]any{}
	var steps []any
	var maps []float64
	best := 0
	for e := 1; e <= p.hyper.get("epochs").whole(); e++ {
		if err := p.stepper.Begin(e); err != nil {
			return nil, err
		}
		p.norm.Training = true
		rows := p.order[e-1]
		for at := 0; at < len(rows); at += p.batch {
			places := rows[at:min(at+p.batch, len(rows))]
			// A step's tensors end with it, so it is described while it is taken.
			var rec map[string]any
			p.watch(func(st *label.Step) { rec = p.record(st) })
			value, err := p.stepper.Step(e, places)
			if err != nil {
				return nil, err
			}
			rec["loss"] = value
			steps = append(steps, rec)
		}
		p.norm.Training = false
		var z *torch.Tensor
		torch.NoGrad(func() { z = p.logits(p.xVal).Sigmoid() })
		m, err := meanAP(z, p.labelsVal)
		if err != nil {
			return nil, err
		}
		if maps = append(maps, m); m > maps[best] {
			best = e - 1
		}
		if e == 1 {
			out["state_after_epoch_1"] = p.states()
		}
		if p.afterEpoch != nil {
			p.afterEpoch(out)
		}
	}
	out["steps"], out["val_map_per_epoch"], out["state_after_last_epoch"] = steps, maps, p.states()
	out["best_epoch"], out["test_map"] = best+1, maps[best]
	return plain(out).(map[string]any), nil
}

// watched calls seen with each step after the estimator has followed it.
type watched struct {
	label.Estimator
	seen func(*label.Step)
}

func (w *watched) After(s *label.Step) error {
	w.seen(s)
	return w.Estimator.After(s)
}

func (p *pictures) watch(seen func(*label.Step)) {
	if w, ok := p.stepper.Estimator.(*watched); ok {
		w.seen = seen
		return
	}
	p.stepper.Estimator = &watched{p.stepper.Estimator, seen}
}

func ignoreRun(p *pictures, _ string) (err error) {
	h := p.hyper
	gaps, err := label.NewGaps(p.labels.Size(1), p.o.DType, torch.CPU, label.GapConfig{
		GapLambda: h.get("gap_lambda").number(), AvgLambda: h.get("avg_lambda").number(), Warmup: h.get("warm_up").whole(),
	}, nil)
	if err != nil {
		return err
	}
	set := loss.Values{}
	for _, name := range []string{"spbc_weight", "reg_weight", "ignore_weight"} {
		set[name] = h.get(name).number()
	}
	if p.stepper.Loss, err = loss.New("ignore", "", set, loss.Options{LogEps: h.num("eps", 0)}); err != nil {
		return err
	}
	p.stepper.Estimator = gaps
	mask := label.PositiveMask{Threshold: h.get("cam_threshold").number(), Batch: true}
	var kept float64
	p.stepper.Forward = func(s *label.Step) (err error) {
		x := p.x.IndexSelect(0, s.At)
		maps := p.maps(x)
		s.Batch.Logits = maps.MeanDim([]int{2, 3}, false)
		s.Batch.Strong = p.logits(p.strong.IndexSelect(0, s.At))
		torch.NoGrad(func() {
			var m *torch.Tensor
			if m, _, err = mask.Keep(maps, p.observed.IndexSelect(0, s.At), x.Size(2), x.Size(3)); err == nil {
				kept = m.ToDType(torch.Float64).Mean().Item()
				s.Masked = p.logits(x.Mul(m))
			}
		})
		return err
	}
	p.record = func(st *label.Step) map[string]any {
		b := st.Batch
		tau, mu := gaps.Thresholds()
		rejected := b.Observed.EqScalar(0).LogicalAnd(b.Negative.EqScalar(0)).Sum().ItemInt()
		return plain(map[string]any{
			"epoch": st.Epoch, "gap_threshold": tau.Item(), "avg_threshold": mu, "rejected": rejected,
			"logits_row0":        b.Logits.Select(0, 0),
			"logits_masked_row0": st.Masked.Select(0, 0), "kept_pixels": kept,
		}).(map[string]any)
	}
	return nil
}

func boostRun(p *pictures, scheme string) (err error) {
	h := p.hyper
	p.alpha = h.get("alpha").number()
	delta := h.get("delta_rel").number()
	labels, err := label.NewLargeLoss(p.observed)
	if err != nil {
		return err
	}
	if p.stepper.Loss, err = loss.New(scheme, "", loss.Values{"delta_rel": delta, "semantics": loss.BoostLU},
		p.o.form("ll-r", loss.Options{})); err != nil {
		return err
	}
	p.stepper.Estimator = &listening{LargeLoss: labels, to: map[string]*torch.Tensor{}}
	p.stepper.Forward = func(s *label.Step) error {
		s.Batch.Logits = p.logits(p.x.IndexSelect(0, s.At))
		return nil
	}
	l := p.stepper.Estimator.(*listening)
	p.record = func(st *label.Step) map[string]any {
		clean := 1.0
		for range st.Epoch - 1 {
			clean -= delta
		}
		modified := []any{}
		if m := l.to["modified"]; m != nil {
			rows := torch.ToSlice[int64](m.Nonzero().Flatten(0, -1))
			for i := 0; i < len(rows); i += 2 {
				modified = append(modified, []any{float64(rows[i]), float64(rows[i+1])})
			}
		}
		return plain(map[string]any{"clean_rate": clean, "modified": modified, "logits_row0": st.Batch.Logits.Select(0,
			0)}).(map[string]any)
	}
	var positives []any
	p.afterEpoch = func(out map[string]any) {
		positives = append(positives, labels.Labels.EqScalar(1).Sum().ItemInt())
		out["observed_positives_after_epoch"], out["labels_observed_end"] = positives, plain(labels.Labels)
	}
	return nil
}

// listening keeps the parts of a loss beside what the estimator hears of it.
type listening struct {
	*label.LargeLoss
	to map[string]*torch.Tensor
}

func (l *listening) Fill(s *label.Step) error {
	err := l.LargeLoss.Fill(s)
	hears := s.Batch.Report
	s.Batch.Report = func(part string, v *torch.Tensor) {
		l.to[part] = v
		hears(part, v)
	}
	return err
}
