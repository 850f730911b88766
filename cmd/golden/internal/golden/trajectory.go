package golden

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// trajectory is a recorded training run of one linear layer by a paper's released code; features, labels, order and
// initial weights lie beside the file as .npy.
type trajectory struct{}

func (trajectory) Name() string { return "trajectory" }

func (trajectory) Detect(top map[string]any) bool {
	_, method := top["method"].(string)
	_, problem := top["problem"]
	return method && problem
}

var trajectorySections = []string{"about", "method", "hyperparameters", "problem", "notes", "float64", "float32", "largest_float32_difference"}

// Check replays the run in both number types, or in the one of o where it is single precision, and compares with the
// tolerances of the file's about.
func (k trajectory) Check(f *File, o Options, r *Report) error {
	for _, s := range keys(f.Top) {
		if !slices.Contains(trajectorySections, s) {
			r.Skip(s)
		}
	}
	for _, of := range []struct {
		name            string
		dtype           torch.DType
		loss            Tolerance
		params, metrics float64
	}{
		{"float64", torch.Float64, Tolerance{1e-9, 1e-9}, 1e-8, 1e-6},
		{"float32", torch.Float32, Tolerance{1e-6, 2e-5}, 1e-5, 0.5},
	} {
		want, ok := f.Top[of.name].(map[string]any)
		if !ok || o.DType == torch.Float32 && of.dtype == torch.Float64 {
			continue
		}
		got, err := Trace(f, Options{DType: of.dtype, Fused: o.Fused})
		if err == nil {
			if of.dtype == torch.Float32 {
				got = singleBlock(got)
			}
			for _, s := range keys(want) {
				tol := func(path string) Tolerance {
					switch {
					case s == "loss_per_step", s == "regulariser_per_step":
						return of.loss
					case matches(path, "params", "final_params", "label_matrix_after_apl", "estimated_labels", "similarity_first_rows"):
						return Tolerance{of.params, 0}
					case matches(path, "train_running_loss"):
						return of.loss
					}
					return Tolerance{of.metrics, 0}
				}
				r.Case(of.name+"."+s, f.Path+" "+of.name+"/"+s, Compare(map[string]any{s: want[s]}, got, tol))
			}
			continue
		}
		r.Case(of.name, f.Path+" "+of.name, err)
	}
	return nil
}

// singleBlock is what a file's float32 block holds of a run.
func singleBlock(t map[string]any) map[string]any {
	epochs := t["epochs"].([]any)
	var val []any
	var params any
	for _, e := range epochs {
		m := e.(map[string]any)
		params = m["params"]
		val = append(val, m["val"].(map[string]any)["map"])
	}
	out := maps.Clone(t)
	out["final_params"], out["val_map"] = params, val
	return out
}

func (k trajectory) Eval(f *File, o Options, emit func(string, any) error) error {
	t, err := Trace(f, o)
	if err != nil {
		return err
	}
	return emit(f.Top["method"].(string), t)
}

// problem is the data of a run.
type problem struct {
	dtype               torch.DType
	o                   Options
	hyper               node
	x, labels, observed *torch.Tensor // training part
	xVal, labelsVal     *torch.Tensor
	weight0, bias0      *torch.Tensor
	order               [][]int // rows of each epoch
	dir                 string
	batch, epochs       int
	lr, eps             float64
	dropLast            bool
	n, classes          int
	weight, bias        *torch.Tensor
	steps               []any // loss of each step
	optimizer           *optim.Adam
	stepper             *train.Stepper // the step that trains
	trainScores         []float64      // of this epoch's steps
	trainRows           []int
}

func (p *problem) array(name string) (*torch.Tensor, error) {
	a, err := npy.Read(filepath.Join(p.dir, name+".npy"))
	if err != nil {
		return nil, err
	}
	v, err := a.Float64()
	if err != nil {
		return nil, err
	}
	shape := make([]int, len(a.Shape))
	for i, s := range a.Shape {
		shape[i] = int(s)
	}
	return torch.FromSlice(v, shape...).ToDType(p.dtype), nil
}

func newProblem(f *File, o Options) (*problem, error) {
	p := &problem{dtype: o.DType, o: o, dir: filepath.Dir(f.Path), hyper: node{f.Path, any(f.Top)}.get("hyperparameters")}
	if p.dtype == torch.BFloat16 {
		return nil, fmt.Errorf("runs are replayed in float64 or float32")
	}
	var order *torch.Tensor
	for _, a := range []struct {
		name string
		to   **torch.Tensor
	}{
		{"features", &p.x}, {"labels", &p.labels}, {"labels_observed", &p.observed}, {"features_val", &p.xVal}, {"labels_val", &p.labelsVal},
		{"weight0", &p.weight0}, {"bias0", &p.bias0}, {"order", &order},
	} {
		var err error
		if *a.to, err = p.array(a.name); err != nil {
			return nil, err
		}
	}
	p.n, p.classes = p.labels.Size(0), p.labels.Size(1)
	for _, row := range order.Unbind(0) {
		ids := make([]int, p.n)
		for i, v := range torch.ToSlice[float64](row.ToDType(torch.Float64)) {
			ids[i] = int(v)
		}
		p.order = append(p.order, ids)
	}
	h := p.hyper
	p.batch, p.epochs, p.lr, p.eps, p.dropLast = h.get("batch").whole(), h.get("epochs").whole(), h.get("lr").number(), h.num("log_epsilon", 0), h.num("drop_last", 0) != 0
	if p.epochs > len(p.order) || p.batch < 1 {
		return nil, fmt.Errorf("%s: %d epochs in batches of %d with an order for %d", f.Path, p.epochs, p.batch, len(p.order))
	}
	p.weight, p.bias = p.weight0.Clone().SetRequiresGrad(true), p.bias0.Clone().SetRequiresGrad(true)
	params := []*torch.Tensor{p.weight, p.bias}
	p.optimizer = optim.NewAdam(params, optim.LR(p.lr))
	p.stepper = &train.Stepper{
		Estimator: label.None{}, Optimizer: p.optimizer, Observed: p.observed, Full: p.labels, Parameters: params,
		Forward: func(s *label.Step) error {
			z := p.forward(p.x.IndexSelect(0, s.At))
			s.Batch.Logits = z
			p.trainScores = append(p.trainScores, torch.ToSlice[float64](z.Detach().Sigmoid().ToDType(torch.Float64))...)
			p.trainRows = append(p.trainRows, s.Places...)
			return nil
		},
	}
	return p, nil
}

func (p *problem) pick(t *torch.Tensor, rows []int) *torch.Tensor {
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = int64(r)
	}
	return t.IndexSelect(0, torch.FromSlice(ids, len(ids)))
}

func (p *problem) forward(x *torch.Tensor) *torch.Tensor { return torch.Linear(x, p.weight, p.bias) }

// scores are σ(z) without gradients.
func (p *problem) scores(x *torch.Tensor) (s *torch.Tensor) {
	torch.NoGrad(func() { s = p.forward(x).Sigmoid() })
	return s
}

// epoch runs the steps of one epoch and returns the mean loss, weighted by batch size.
func (p *problem) epoch(e int) (float64, error) {
	p.trainScores, p.trainRows = nil, nil
	if err := p.stepper.Begin(e); err != nil {
		return 0, err
	}
	sum, seen := 0.0, 0
	rows := p.order[e-1]
	for at := 0; at < len(rows); at += p.batch {
		b := rows[at:min(at+p.batch, len(rows))]
		if p.dropLast && len(b) < p.batch {
			break
		}
		x, err := p.stepper.Step(e, b)
		if err != nil {
			return 0, err
		}
		p.steps = append(p.steps, x)
		sum += x * float64(len(b))
		seen += len(b)
	}
	return sum / float64(max(seen, 1)), nil
}

// Trace replays the run of a trajectory file and gives an object shaped like its float64 block, as plain JSON values.
func Trace(f *File, o Options) (map[string]any, error) {
	if (trajectory{}) != f.Kind {
		return nil, fmt.Errorf("%s is no training run", f.Path)
	}
	var out map[string]any
	err := guard(func() error {
		p, err := newProblem(f, o)
		if err != nil {
			return err
		}
		m, err := newMethod(p, f.Top["method"].(string))
		if err != nil {
			return err
		}
		out, err = p.run(m)
		return err
	})
	return out, err
}

func (p *problem) run(m method) (map[string]any, error) {
	out := map[string]any{}
	var epochs []any
	var maps []float64
	for e := 1; e <= p.epochs; e++ {
		mean, err := p.epoch(e)
		if err != nil {
			return nil, err
		}
		rec := map[string]any{"params": map[string]any{"weight": p.weight, "bias": p.bias}}
		if m.after != nil {
			if err := m.after(e, rec); err != nil {
				return nil, err
			}
		}
		x, y := p.xVal, p.labelsVal
		if p.dropLast {
			n := x.Size(0) / p.batch * p.batch
			x, y = x.Slice(0, 0, n, 1), y.Slice(0, 0, n, 1)
		}
		s := p.scores(x)
		val, err := evaluation(s, y, m.family)
		if err != nil {
			return nil, err
		}
		rec["val"] = val
		maps = append(maps, val["map"].(float64))
		if m.family == cole {
			rec["train_running_loss"] = mean
			rec["preds_k_hat_val"] = s.Sum().Item() / float64(s.Size(0))
			if rec["train_map_observed"], err = meanAP(torch.FromSlice(p.trainScores, len(p.trainRows), p.classes).ToDType(p.dtype), p.pick(p.observed, p.trainRows)); err != nil {
				return nil, err
			}
		}
		epochs = append(epochs, plain(rec))
		if m.stop != nil && m.stop(maps) {
			out["early_stopped"] = true
			break
		}
	}
	out["loss_per_step"], out["epochs"] = p.steps, epochs
	best := 0
	for i, v := range maps {
		if v > maps[best] {
			best = i
		}
	}
	switch m.family {
	case cole:
		out["best_epoch_0based"] = best
	case em:
		out["released_loop_would_stop_after_epoch"] = nil
		for i := 1; i < len(maps); i++ {
			if maps[i] <= slices.Max(maps[:i]) {
				out["released_loop_would_stop_after_epoch"] = i + 1
				break
			}
		}
	case robust:
		if out["early_stopped"] == nil {
			out["early_stopped"] = false
		}
		out["test_at_best"] = map[string]any{"map": maps[best]}
	}
	if m.end != nil {
		if err := m.end(out); err != nil {
			return nil, err
		}
	}
	return plain(out).(map[string]any), nil
}
