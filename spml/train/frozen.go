package train

import (
	"context"
	"fmt"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// frozen trains a linear head on features that do not change.
type frozen struct {
	*session
	features     *torch.Tensor // [n, D], one row for each image in `at`
	at           []int         // row of the data set -> row of features, -1 = broken image
	weight, bias *torch.Tensor // [C, D], [C]
	opt          *optim.Adam
	labels       labelTensors // of the training rows
	usable       []int        // training rows whose image could be read
	bad          []data.Broken
	net          *network // nil where only features were given
}

func newFrozen(ctx context.Context, s *session) (*frozen, error) {
	f := &frozen{session: s}
	if err := f.loadFeatures(ctx); err != nil {
		return nil, err
	}
	for _, r := range s.train {
		if f.at[r] >= 0 {
			f.usable = append(f.usable, r)
		}
	}
	if len(f.usable) == 0 {
		return nil, fmt.Errorf("%w: no training image could be read", ErrData)
	}
	f.weight, f.bias = drawHead(s.random, s.ds.C(), f.features.Size(1))
	f.weight.SetRequiresGrad(true)
	f.bias.SetRequiresGrad(true)
	f.labels = gatherLabels(s.ds, f.usable)
	s.parameters = []*torch.Tensor{f.weight, f.bias}
	f.opt = optim.NewAdam([]*torch.Tensor{f.weight, f.bias}, optim.LR(s.c.HeadLR))
	return f, nil
}

func (f *frozen) loadFeatures(ctx context.Context) error {
	c, n := f.c, f.ds.N()
	f.at = make([]int, n)
	for i := range f.at {
		f.at[i] = i
	}
	var err error
	if c.Weights != "" {
		if f.net, err = newNetwork(f.session); err != nil {
			return err
		}
	}
	if c.Features != "" {
		a, err := npy.Read(c.Features)
		if err != nil {
			return err
		}
		if len(a.Shape) != 2 || a.Shape[0] != int64(n) {
			return fmt.Errorf("%w: %s has shape %v, %s has %d images", ErrData, c.Features, a.Shape, f.ds.Name, n)
		}
		values, err := a.Float32()
		if err != nil {
			return fmt.Errorf("%s: %w", c.Features, err)
		}
		dim := int(a.Shape[1])
		f.features = torch.FromSlice(values, n, dim)
		if f.net != nil && f.net.model.FeatureDim() != dim {
			return fmt.Errorf("%w: %s has %d features per image, %s gives %d", ErrData, c.Features, dim, c.Backbone, f.net.model.FeatureDim())
		}
		f.ev.note(fmt.Sprintf("features [%d, %d] from %s", n, dim, c.Features))
		return nil
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	values, got, err := f.net.features(ctx, rows)
	if err != nil {
		return err
	}
	for i := range f.at {
		f.at[i] = -1
	}
	for i, r := range got {
		f.at[r] = i
	}
	f.features = torch.FromSlice(values, len(got), f.net.model.FeatureDim())
	f.bad = f.net.loader.Broken()
	return nil
}

func (f *frozen) epoch(ctx context.Context, n int) (float64, error) {
	order := f.random.Permutation(len(f.usable))
	total, start := 0.0, time.Now()
	for at := 0; at < len(order); at += f.c.BatchSize {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		batch := order[at:min(at+f.c.BatchSize, len(order))]
		var err error
		torch.Scope(func(*torch.Arena) {
			var x float64
			if x, err = f.step(batch, n); err == nil {
				total += x * float64(len(batch))
			}
		})
		if err != nil {
			return 0, err
		}
	}
	f.ev.step(Step{Phase: "train", Epoch: n, Epochs: f.c.Epochs, Done: len(order), Total: len(order), Loss: total / float64(len(order)), ImagesPerSec: float64(len(order)) / time.Since(start).Seconds()})
	return total / float64(len(order)), nil
}

// step trains on the places `batch` of the usable training rows.
func (f *frozen) step(batch []int, epoch int) (float64, error) {
	places, rows := make([]int64, len(batch)), make([]int64, len(batch))
	named := make([]int, len(batch))
	for i, p := range batch {
		named[i] = f.usable[p]
		places[i], rows[i] = int64(p), int64(f.at[f.usable[p]])
	}
	place := torch.FromSlice(places)
	z := torch.Linear(f.features.IndexSelect(0, torch.FromSlice(rows)), f.weight, f.bias)
	var observed, full *torch.Tensor
	if f.labels.observed != nil {
		observed = f.labels.observed.IndexSelect(0, place)
	}
	if f.labels.full != nil {
		full = f.labels.full.IndexSelect(0, place)
	}
	v, x, err := f.value(z, observed, full, epoch, named)
	if err != nil {
		return 0, err
	}
	f.opt.ZeroGrad()
	v.Backward()
	f.opt.Step()
	return x, nil
}

func (f *frozen) scores(_ context.Context, _ string, _ int, rows []int) (*Scores, error) {
	s := &Scores{}
	var idx []int64
	for _, r := range rows {
		if f.at[r] >= 0 {
			s.Rows = append(s.Rows, r)
			idx = append(idx, int64(f.at[r]))
		}
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			s.Values = sigmoids(nil, torch.Linear(f.features.IndexSelect(0, torch.FromSlice(idx)), f.weight, f.bias))
		})
	})
	return s, nil
}

func (f *frozen) save(dir string) error {
	if f.net == nil {
		return saveHead(dir, f.c, f.ds, f.weight, f.bias)
	}
	f.net.setHead(f.weight, f.bias)
	return f.net.save(dir)
}

func (f *frozen) broken() []data.Broken { return f.bad }

func (f *frozen) close() error {
	if f.net == nil {
		return nil
	}
	return f.net.close()
}
