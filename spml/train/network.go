package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/input"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// network is a backbone with its images.
type network struct {
	*session
	model  backbone.Model
	loader *data.Loader
	in     *input.Input
	size   int // side of the input
}

func newNetwork(s *session) (*network, error) {
	n := &network{session: s, size: s.c.Data.ImageSize}
	var err error
	if s.c.Model.Backbone == config.BackboneClip {
		n.model, err = n.clipModel()
	} else if s.c.Model.Weights == "" {
		if s.saved == nil && s.c.Model.Init == "" && s.c.Data.Path != config.Shapes {
			s.ev.note(fmt.Sprintf("no --weights: %s begins with random numbers, which takes many photos and epochs (30 by "+
				"default, here %d); with pretrained weights it takes 4: --weights FILE (torchvision's or timm's)",
				s.c.Model.Backbone, s.c.Schedule.Epochs))
		}
		n.model, err = backbone.New(s.c.Model.Backbone, s.ds.C(), nn.Generator(s.torch))
	} else {
		var loaded *backbone.Loaded
		if n.model, loaded, err = backbone.NewFromFile(s.c.Model.Backbone, s.c.Model.Weights, s.ds.C()); err == nil {
			s.ev.note(fmt.Sprintf("%s: %v", s.c.Model.Weights, loaded))
		}
	}
	if err == nil {
		n.model, err = model.WithHead(n.model, s.c.HeadSpec(), s.ds.C(), s.torch)
	}
	if err != nil {
		return nil, err
	}
	if err := torch.Try(func() { compute.Place(n.model, s.device) }); err != nil {
		return nil, fmt.Errorf("%s on %v: %w", s.c.Model.Backbone, s.device, err)
	}
	// A card keeps the pictures: a row crosses the bus once. On the CPU the loader's own cache is as near.
	var keep int64
	if s.device.Type == torch.DeviceCUDA && s.c.Model.Mode == config.FineTune && s.saved == nil {
		keep = input.HalfOfFree
	}
	// Channels-last order: convolutions run several times faster on it.
	if n.in, err = input.New(s.device, n.size, n.size, s.ds.N(), keep, input.Options{Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd, ChannelsLast: true}); err != nil {
		return nil, err
	}
	n.loader, err = data.NewLoader(s.ds, s.loaderOptions(n.size))
	if err == nil && s.c.Data.Cache.Dir != "" && s.cacheBytes > 0 {
		s.ev.note("decoded images are kept in " + n.loader.CachedIn())
	}
	return n, err
}

// loaderOptions are the settings of the loader's cache.
func (s *session) loaderOptions(side int) data.LoaderOptions {
	o := data.LoaderOptions{
		Width:  side,
		Height: side,
		Log:    s.ev.logger(),
		Read:   data.ReadOptions{Decode: s.c.Data.Pixels()},
	}
	if s.cacheBytes == 0 || s.c.Data.Cache.Kind == string(data.CacheNone) {
		return o
	}
	o.Cache, o.CacheBytes = data.CacheKind(s.c.Data.Cache.Kind), s.cacheBytes
	if o.CacheDir = s.c.Data.Cache.Dir; o.CacheDir != "" {
		if o.CacheFileBytes = int64(s.c.Data.Cache.FileMB) << 20; o.CacheFileBytes == 0 {
			o.CacheFileBytes = math.MaxInt64
		}
	}
	return o
}

func (n *network) close() error {
	n.in.Close()
	return n.loader.Close()
}

// forEach runs f on batches of rows in order, in inference mode, inside a scope.
func (n *network) forEach(ctx context.Context, phase string, epoch int, rows []int, f func(a *torch.Arena, x *torch.Tensor)) ([]int, error) {
	nn.SetTraining(n.model, false)
	loosen, err := model.Fix(n.model) // DualCoOp's prompts do not change meanwhile
	if err != nil {
		return nil, err
	}
	defer loosen()
	var got []int
	start := time.Now()
	var worked time.Duration
	for b, err := range n.loader.Batches(ctx, data.Plan{Order: rows, BatchSize: max(n.c.Optim.BatchSize, 32)}) {
		begun := time.Now()
		if err != nil {
			return nil, err
		}
		torch.Scope(func(a *torch.Arena) {
			torch.NoGrad(func() {
				var x *torch.Tensor
				if x, err = n.in.Batch(b, 0, b.Len(), false); err == nil {
					n.cast(func() { f(a, x) })
				}
			})
		})
		if err != nil {
			return nil, err
		}
		got = append(got, b.Rows...)
		worked += time.Since(begun)
		all := time.Since(start)
		n.ev.step(
			Step{
				Phase:        phase,
				Epoch:        epoch,
				Epochs:       n.c.Schedule.Epochs,
				Done:         len(got),
				Total:        len(rows),
				ImagesPerSec: float64(len(got)) / all.Seconds(),
				Waited:       (all - worked).Seconds() / all.Seconds(),
				CardBytes:    compute.UsedOn(n.device),
			},
		)
	}
	return got, nil
}

// cast runs f in the run's precision.
func (n *network) cast(f func()) {
	if d, ok := computeTypes[n.c.Run.Precision]; ok {
		torch.Autocast(n.device.Type, d, f)
	} else {
		f()
	}
}

// features computes the pooled features [len(got), D] of rows.
func (n *network) features(ctx context.Context, rows []int) (values []float32, got []int, err error) {
	var all compute.Collected
	got, err = n.forEach(ctx, "features", 0, rows, func(a *torch.Arena, x *torch.Tensor) {
		all.Add(a, n.model.Features(x).ToDType(torch.Float32).Contiguous())
	})
	return all.Flush(), got, err
}

func (n *network) scores(ctx context.Context, phase string, epoch int, rows []int) (*Scores, error) {
	s := &Scores{}
	var err error
	var all compute.Collected
	s.Rows, err = n.forEach(ctx, phase, epoch, rows, func(a *torch.Arena, x *torch.Tensor) { all.Add(a, compute.Sigmoids(n.model.Forward(x))) })
	s.Values = all.Flush()
	return s, err
}

// setHead copies a trained head into the model.
func (n *network) setHead(weight, bias *torch.Tensor) {
	h := model.Linear(n.model)
	torch.NoGrad(func() {
		h.Weight.Copy_(weight)
		h.Bias.Copy_(bias)
	})
}

func modelConfigOf(c config.Config, m *method.Method, ds *data.Dataset, dim int) model.Config {
	return model.Config{
		HeadSpec: c.HeadSpec(), Architecture: c.Model.Backbone, NumClasses: ds.C(),
		NumFeatures: dim, LabelNames: ds.Classes, Threshold: m.Present(), Method: c.Method.ID,
		PretrainedCfg: model.Input{
			InputSize: [3]int{
				3,
				c.Data.ImageSize,
				c.Data.ImageSize,
			}, Interpolation: "bilinear", CropMode: "squash", CropPct: 1,
			Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd, EXIF: c.Data.EXIF,
		},
	}
}

func (n *network) save(dir string) error {
	mc := modelConfigOf(n.c, n.method, n.ds, n.model.FeatureDim())
	if m, ok := n.model.(model.ClipMade); ok {
		mc.Spec = m.Spec()
	}
	return model.Save(dir, mc, nn.StateDictOf(n.model))
}

func saveHead(dir string, c config.Config, m *method.Method, ds *data.Dataset, weight, bias *torch.Tensor) error {
	mc := modelConfigOf(c, m, ds, weight.Size(1))
	mc.FeaturesOnly = true
	return model.Save(dir, mc, nn.StateDict{"weight": weight, "bias": bias})
}
