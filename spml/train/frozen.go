package train

import (
	"context"
	"fmt"
	"iter"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/latent"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// frozen trains a head on features that do not change.
type frozen struct {
	*session
	*network.Stored                // its weight and bias, of a latent head, are what that is in evaluation
	rows            []int          // training rows with features
	x, strong       *torch.Tensor  // their features [len(rows), D]; strong is nil without a second view
	head            *latent.Linear // nil for a linear head
}

func newFrozen(ctx context.Context, s *session) (*frozen, error) {
	stored, err := network.Store(ctx, s.net)
	if err != nil {
		return nil, err
	}
	f := &frozen{session: s, Stored: stored}
	var at []int64
	if f.rows, at = f.Places(s.train); len(f.rows) == 0 {
		return nil, fmt.Errorf("%w: no training image could be read", ErrData)
	}
	f.x = f.Features.IndexSelect(0, compute.Upload(s.device, at))
	dim := f.Features.Size(1)
	if paths := s.c.Model.StrongFeatures; len(paths) > 0 {
		strong, where, err := network.ReadFeatures(paths, s.ds)
		if err != nil {
			return nil, err
		}
		if n := strong.Size(1); n != dim {
			return nil, fmt.Errorf("%w: %s has %d features per image, the other view %d", ErrData, paths, n, dim)
		}
		for i, r := range f.rows {
			if where[r] < 0 {
				return nil, fmt.Errorf("%w: %s has no row for %s", ErrData, paths, s.ds.Images[r])
			}
			at[i] = int64(where[r])
		}
		strong = s.to(strong)
		f.strong = strong.IndexSelect(0, compute.Upload(s.device, at))
	}
	f.Weight, f.Bias = drawHead(s.random, s.ds.C(), dim)
	f.Weight, f.Bias = s.to(f.Weight), s.to(f.Bias)
	if s.latent {
		f.head = latent.NewLinear(s.ds.C(), dim, s.c.Method.LatentDim, s.betas, s.draws())
		compute.Place(f.head, s.device)
		f.collapse()
	} else {
		f.Weight.SetRequiresGrad(true)
		f.Bias.SetRequiresGrad(true)
	}
	return f, nil
}

func (f *frozen) collapse() {
	w, b := f.head.Map()
	f.Weight.Copy_(w)
	f.Bias.Copy_(b)
	w.Free()
	b.Free()
}

func (f *frozen) usable() []int           { return f.rows }
func (f *frozen) constant() *torch.Tensor { return f.x }
func (f *frozen) setTraining(on bool)     {}
func (f *frozen) broken() []data.Broken   { return f.Broken() }
func (f *frozen) close() error            { return f.Close() }
func (f *frozen) photoBytes() int64       { return 0 }

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
	b.Logits = torch.Linear(x, f.Weight, f.Bias)
	if f.maps {
		b.Maps = b.Logits.Unsqueeze(2).Unsqueeze(3)
	}
	if f.strong != nil {
		b.Strong = torch.Linear(f.strong.IndexSelect(0, at), f.Weight, f.Bias)
	}
	return nil
}

func (f *frozen) finish(v *view, b *loss.Batch) { f.head.Fill(v.pooled, b) }

func (f *frozen) linear() (x, weight, bias *torch.Tensor) {
	if f.head != nil || f.strong != nil || f.maps {
		return nil, nil, nil
	}
	return f.x, f.Weight, f.Bias
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
	return nil, []*torch.Tensor{f.Weight, f.Bias}
}

func (f *frozen) state() nn.StateDict {
	if f.head != nil {
		return nn.StateDictOf(f.head)
	}
	return nn.StateDict{"weight": f.Weight, "bias": f.Bias}
}

func (f *frozen) scores(ctx context.Context, phase string, n int, rows []int) (*Scores, error) {
	if f.head != nil {
		f.collapse()
	}
	return f.Scores(ctx, phase, n, rows)
}

func (f *frozen) save(dir string) error {
	if f.head != nil {
		f.collapse()
	}
	return f.Save(dir)
}
