package train

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/latent"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// fineTune trains backbone and head.
type fineTune struct {
	*session
	*network.Network
	place map[int]int // row -> place among the training rows

	head    *latent.Linear                      // in place of the model's own head; nil for that
	latents latent.Head                         // that, or the model's own; nil where the loss reads none
	on      func(x *torch.Tensor) *torch.Tensor // what latents stand on
}

func newFineTune(s *session) (*fineTune, error) {
	n, err := network.New(s.net)
	if err != nil {
		return nil, err
	}
	if (s.maps || s.method.Mask != nil) && !model.MeanPooled(n.Model) {
		return nil, errors.Join(&config.Error{Msg: s.c.Method.ID + " needs score maps whose mean is the score, which " +
			s.c.Model.Backbone + " does not have; take a ResNet, MobileNetV2 or SqueezeNet"}, n.Close())
	}
	f := &fineTune{session: s, Network: n, place: map[int]int{}}
	if s.c.Model.Head == config.HeadLinear || s.c.Model.Head == config.HeadBoostLU {
		n.SetHead(drawHead(s.random, s.ds.C(), n.Model.FeatureDim()))
		nn.SetDropout(n.Model, 0) // the papers' classifier is a linear layer on the pooled features
	}
	if s.c.Model.Init != "" {
		taken, err := model.StartFrom(n.Model, s.c.Model.Init)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		s.ev.Say(taken)
	}
	if own, ok := n.Model.(model.LatentNetwork); s.latent && ok {
		f.latents, f.on = latent.Of(own, s.draws()), own.Labelwise
	} else if s.latent {
		f.head = latent.NewLinear(s.ds.C(), n.Model.FeatureDim(), s.c.Method.LatentDim, s.betas, s.draws())
		compute.Place(f.head, s.device)
		f.latents, f.on = f.head, n.Model.Features
	}
	for i, r := range s.train {
		f.place[r] = i
	}
	if err := n.ForTraining(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return f, nil
}

func (f *fineTune) usable() []int           { return f.train }
func (f *fineTune) constant() *torch.Tensor { return nil }
func (f *fineTune) setTraining(on bool)     { nn.SetTraining(f.Model, on) }
func (f *fineTune) broken() []data.Broken   { return f.Broken() }
func (f *fineTune) close() error            { return f.Close() }
func (f *fineTune) photoBytes() int64       { return f.Input.CacheBytes() }

func (f *fineTune) batches(ctx context.Context, order []int, flip []bool, start int) iter.Seq2[*view, error] {
	plan := data.Plan{
		Order:     make([]int, len(order)),
		BatchSize: f.c.Optim.BatchSize,
		Start:     start,
		Rank:      f.procs.Rank(),
		World:     f.procs.Size(),
	}
	for i, p := range order {
		plan.Order[i] = f.train[p]
	}
	if flip != nil {
		plan.Flip = func(row int) bool { return flip[f.place[row]] }
	}
	of := func(b *data.Batch) *view {
		v := &view{places: make([]int, b.Len()), images: b}
		for i, r := range b.Rows {
			v.places[i] = f.place[r]
		}
		if flip != nil {
			v.flip = b.Flip
		}
		return v
	}
	// A second view is made from the host's pictures.
	if f.Input.Far() && f.method.Mask == nil && f.entry.Needs&loss.StrongView == 0 {
		batches := func(ctx context.Context) iter.Seq2[*data.Batch, error] { return f.Loader.Batches(ctx, plan) }
		return func(yield func(*view, error) bool) {
			for g, err := range f.Input.Ahead(ctx, batches) {
				if err != nil {
					yield(nil, err)
					return
				}
				v := of(g.Batch)
				v.gathered = g
				if !yield(v, nil) {
					return
				}
			}
		}
	}
	return func(yield func(*view, error) bool) {
		for b, err := range f.Loader.Batches(ctx, plan) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(of(b), nil) {
				return
			}
		}
	}
}

func (f *fineTune) forward(v *view, _ *torch.Tensor, b *loss.Batch) (err error) {
	f.Cast(func() { err = f.compute(v, b) })
	if f.c.Run.Precision != config.FP32 { // labels, losses and estimators count in float32
		float32s(v, b)
	}
	return err
}

func float32s(v *view, b *loss.Batch) {
	for _, t := range fields(v, b) {
		if *t != nil {
			*t = (*t).ToDType(torch.Float32)
		}
	}
}

func (f *fineTune) finish(v *view, b *loss.Batch) {
	f.Cast(func() { f.latents.Fill(v.pooled, b) })
	float32s(v, b)
}

func (f *fineTune) linear() (x, weight, bias *torch.Tensor) { return nil, nil, nil }

func (f *fineTune) whole() []*torch.Tensor {
	if f.latents == nil {
		return nil
	}
	return f.latents.Parameters()
}

// compute is forward in the precision that is set.
func (f *fineTune) compute(v *view, b *loss.Batch) error {
	batch := func(from, to int, flip bool) (*torch.Tensor, error) { return f.Input.Batch(v.images, from, to, flip) }
	if v.gathered != nil {
		batch = func(from, to int, flip bool) (*torch.Tensor, error) {
			return f.Input.BatchOf(v.gathered, from, to, flip)
		}
	}
	x, err := batch(v.from, v.from+len(v.places), v.flip != nil)
	if err != nil {
		return err
	}
	switch {
	case f.method.Mask != nil:
		return f.threeViews(v, x, v.epoch, b)
	case f.entry.Needs&loss.StrongView != 0:
		return f.twoViews(v, x, v.epoch, b)
	case f.latent:
		if v.pooled = f.on(x); !v.split {
			f.latents.Fill(v.pooled, b)
		}
	case f.maps:
		h := f.Model.Head()
		maps := f.Model.FeatureMap(x)
		b.Maps = torch.Linear(maps.Permute(0, 2, 3, 1), h.Weight, h.Bias).Permute(0, 3, 1, 2)
		b.Logits = b.Maps.MeanDim([]int{2, 3}, false)
	default:
		b.Logits = f.Model.Forward(x)
	}
	return nil
}

func (f *fineTune) groups() (body, head []*torch.Tensor) {
	body, head = model.Split(f.Model)
	body = slices.DeleteFunc(body, func(p *torch.Tensor) bool { return !p.RequiresGrad() }) // frozen stages, constant normalisation
	if f.head != nil {
		head = nn.Parameters(f.head)
	}
	return body, head
}

func (f *fineTune) state() nn.StateDict {
	sd := model.Trained(f.Model)
	if f.head != nil {
		for k, t := range nn.StateDictOf(f.head) {
			sd["latent."+k] = t
		}
	}
	return sd
}

func (f *fineTune) collapse() {
	if f.head != nil {
		w, b := f.head.Map()
		f.SetHead(w, b)
		w.Free()
		b.Free()
	}
}

func (f *fineTune) scores(ctx context.Context, phase string, epoch int, rows []int) (*Scores, error) {
	f.collapse()
	return f.Network.Scores(ctx, phase, epoch, rows)
}

func (f *fineTune) save(dir string) error {
	f.collapse()
	return f.Network.Save(dir)
}
