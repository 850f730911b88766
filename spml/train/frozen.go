package train

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/latent"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// frozen trains a head on features that do not change.
type frozen struct {
	*session
	features     *torch.Tensor  // [n, D], one row for each image in `at`
	at           []int          // row of the data set -> row of features, -1 = broken image or no features
	rows         []int          // training rows with features
	x, strong    *torch.Tensor  // their features [len(rows), D]; strong is nil without a second view
	weight, bias *torch.Tensor  // [C, D], [C]; of a latent head: what it is in evaluation
	head         *latent.Linear // nil for a linear head
	bad          []data.Broken
	net          *network // nil where only features were given
}

func newFrozen(ctx context.Context, s *session) (*frozen, error) {
	f := &frozen{session: s}
	if err := f.loadFeatures(ctx); err != nil {
		return nil, err
	}
	var idx []int64
	for _, r := range s.train {
		if f.at[r] >= 0 {
			f.rows = append(f.rows, r)
			idx = append(idx, int64(f.at[r]))
		}
	}
	if len(f.rows) == 0 {
		return nil, fmt.Errorf("%w: no training image could be read", ErrData)
	}
	f.features = s.to(f.features)
	at := compute.Upload(s.device, idx)
	f.x = f.features.IndexSelect(0, at)
	if len(s.c.Model.StrongFeatures) > 0 {
		strong, dim, where, err := readFeatures(s.c.Model.StrongFeatures, s.ds)
		if err != nil {
			return nil, err
		}
		if dim != f.features.Size(1) {
			return nil, fmt.Errorf(
				"%w: %s has %d features per image, the other view %d",
				ErrData,
				s.c.Model.StrongFeatures,
				dim,
				f.features.Size(1),
			)
		}
		for i, r := range f.rows {
			if where[r] < 0 {
				return nil, fmt.Errorf("%w: %s has no row for %s", ErrData, s.c.Model.StrongFeatures, s.ds.Images[r])
			}
			idx[i] = int64(where[r])
		}
		strong = s.to(strong)
		f.strong = strong.IndexSelect(0, compute.Upload(s.device, idx))
	}
	f.weight, f.bias = drawHead(s.random, s.ds.C(), f.features.Size(1))
	f.weight, f.bias = s.to(f.weight), s.to(f.bias)
	if s.latent {
		f.head = latent.NewLinear(s.ds.C(), f.features.Size(1), s.c.Method.LatentDim, s.betas, s.draws())
		compute.Place(f.head, s.device)
		f.collapse()
	} else {
		f.weight.SetRequiresGrad(true)
		f.bias.SetRequiresGrad(true)
	}
	return f, nil
}

func (f *frozen) collapse() {
	w, b := f.head.Map()
	f.weight.Copy_(w)
	f.bias.Copy_(b)
	w.Free()
	b.Free()
}

// readFeatures reads .npy files with a row for each image; where[row of the data set] is the row of the features, -1
// for none.
func readFeatures(paths config.Paths, ds *data.Dataset) (features *torch.Tensor, dim int, where []int, err error) {
	byName := make(map[string]int, ds.N())
	for i, n := range ds.Images {
		byName[n] = i
	}
	where = make([]int, ds.N())
	for i := range where {
		where[i] = -1
	}
	var all []float32
	rows := 0
	for _, path := range paths {
		a, err := npy.Read(path)
		if err != nil {
			return nil, 0, nil, err
		}
		values, err := a.Float32()
		if err != nil {
			return nil, 0, nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(a.Shape) != 2 || dim != 0 && a.Shape[1] != int64(dim) || a.Shape[1] < 1 {
			return nil, 0, nil, fmt.Errorf("%w: %s has shape %v, want a row of features for each image", ErrData, path, a.Shape)
		}
		n := int(a.Shape[0])
		dim = int(a.Shape[1])
		names, err := lines(strings.TrimSuffix(path, ".npy") + ".txt")
		switch {
		case err == nil && len(names) != n:
			return nil, 0, nil, fmt.Errorf("%w: %s has %d rows, the .txt file beside it names %d images", ErrData, path, n, len(names))
		case err != nil && n != ds.N():
			return nil, 0, nil, fmt.Errorf("%w: %s has %d rows, %s has %d images; put a .txt file with the image names beside it", ErrData, path, n, ds.Name, ds.N())
		}
		for i := range n {
			row, known := i, true
			if err == nil {
				row, known = byName[names[i]], true
				if ds.Images[row] != names[i] {
					known = false
				}
			}
			if known {
				where[row] = rows + i
			}
		}
		all = append(all, values...)
		rows += n
	}
	return torch.FromSlice(all, rows, dim), dim, where, nil
}

func (f *frozen) loadFeatures(ctx context.Context) error {
	c, n := f.c, f.ds.N()
	var err error
	if c.Model.Weights != "" {
		if f.net, err = newNetwork(f.session); err != nil {
			return err
		}
	}
	if c.Model.Features.Own() {
		own := f.ds.Features
		if own == nil {
			return fmt.Errorf("%w: %s holds no features; give --features FILE.npy or --weights FILE", ErrData, f.ds.Name)
		}
		if f.net != nil && f.net.model.FeatureDim() != own.Dim {
			return fmt.Errorf(
				"%w: %s has %d features per row, %s gives %d",
				ErrData,
				f.ds.Name,
				own.Dim,
				c.Model.Backbone,
				f.net.model.FeatureDim(),
			)
		}
		f.features, f.at = torch.FromSlice(own.Values, n, own.Dim), make([]int, n)
		for i := range f.at {
			f.at[i] = i
		}
		return nil
	}
	if len(c.Model.Features) > 0 {
		var dim int
		if f.features, dim, f.at, err = readFeatures(c.Model.Features, f.ds); err != nil {
			return err
		}
		if f.net != nil && f.net.model.FeatureDim() != dim {
			return fmt.Errorf(
				"%w: %s has %d features per image, %s gives %d",
				ErrData,
				c.Model.Features,
				dim,
				c.Model.Backbone,
				f.net.model.FeatureDim(),
			)
		}
		missing := 0
		for _, r := range f.at {
			if r < 0 {
				missing++
			}
		}
		f.ev.note(fmt.Sprintf("features [%d, %d] from %s", f.features.Size(0), dim, c.Model.Features))
		if missing > 0 {
			f.ev.note(fmt.Sprintf("%d of %d images have no features and are left out", missing, n))
		}
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
	f.at = make([]int, n)
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

func (f *frozen) usable() []int           { return f.rows }
func (f *frozen) constant() *torch.Tensor { return f.x }
func (f *frozen) setTraining(on bool)     {}
func (f *frozen) broken() []data.Broken   { return f.bad }

func (f *frozen) batches(_ context.Context, order []int, _ []bool, start int) iter.Seq2[*view, error] {
	return func(yield func(*view, error) bool) {
		for at := start * f.c.Optim.BatchSize; at < len(order); at += f.c.Optim.BatchSize {
			batch := order[at:min(at+f.c.Optim.BatchSize, len(order))]
			from, to := f.procs.part(len(batch))
			if !yield(&view{places: batch[from:to]}, nil) {
				return
			}
		}
	}
}

func (f *frozen) forward(v *view, at *torch.Tensor, b *loss.Batch) error {
	x := f.x.IndexSelect(0, at)
	if f.head != nil {
		if v.pooled = x; !v.split {
			f.finish(v, b)
		}
		return nil
	}
	b.Logits = torch.Linear(x, f.weight, f.bias)
	if f.maps {
		b.Maps = b.Logits.Unsqueeze(2).Unsqueeze(3)
	}
	if f.strong != nil {
		b.Strong = torch.Linear(f.strong.IndexSelect(0, at), f.weight, f.bias)
	}
	return nil
}

func (f *frozen) finish(v *view, b *loss.Batch) { f.head.Fill(v.pooled, b) }

func (f *frozen) linear() (x, weight, bias *torch.Tensor) {
	if f.head != nil || f.strong != nil || f.maps {
		return nil, nil, nil
	}
	return f.x, f.weight, f.bias
}

func (f *frozen) syncBatchNorm() bool { return false }

func (f *frozen) whole() []*torch.Tensor {
	if f.head == nil {
		return nil
	}
	return f.head.Parameters()
}

func (f *frozen) groups() (body, head []*torch.Tensor) {
	if f.head != nil {
		return nil, nn.Parameters(f.head)
	}
	return nil, []*torch.Tensor{f.weight, f.bias}
}

func (f *frozen) state() nn.StateDict {
	if f.head != nil {
		return nn.StateDictOf(f.head)
	}
	return nn.StateDict{"weight": f.weight, "bias": f.bias}
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
	if len(idx) == 0 {
		return s, nil
	}
	if f.head != nil {
		f.collapse()
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			s.Values = torch.ToSlice[float32](compute.Sigmoids(torch.Linear(f.features.IndexSelect(0, compute.Upload(f.device, idx)), f.weight, f.bias)))
		})
	})
	return s, nil
}

func (f *frozen) save(dir string) error {
	if f.head != nil {
		f.collapse()
	}
	if f.net == nil {
		return saveHead(dir, f.c, f.method, f.ds, f.weight, f.bias)
	}
	f.net.setHead(f.weight, f.bias)
	return f.net.save(dir)
}

func (f *frozen) close() error {
	if f.net == nil {
		return nil
	}
	return f.net.close()
}

// lines are those of a text file that are not empty.
func lines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if line := strings.TrimRight(s.Text(), "\r"); line != "" {
			out = append(out, line)
		}
	}
	return out, s.Err()
}
