// Package network is a network with the images of a data set: it makes one from settings, walks over images, and gives
// features, scores and outputs of rows; a head on stored features does the same without images.
package network

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
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Options are what a network is made from.
type Options struct {
	Config     config.Config // resolved
	Data       *data.Dataset
	Events     progress.Events
	Method     *method.Method
	Device     torch.Device     // where it computes
	Where      string           // that in words, with the reason
	Generator  *torch.Generator // of the values of a network without weights
	CacheBytes int64            // for decoded images
	Saved      *model.Config    // of a model that is only scored; nil: it is to train
}

// Prepare finds the method and the device of a resolved configuration.
func Prepare(c config.Config, ds *data.Dataset, ev progress.Events) (o Options, err error) {
	o = Options{Config: c, Data: ds, Events: ev, CacheBytes: int64(c.Data.Cache.MB) << 20}
	if o.Method, err = c.Method.Lookup(); err != nil {
		return o, err
	}
	if o.Device, o.Where, err = compute.Choose(c.Run.Device); err != nil {
		return o, err
	}
	compute.PrepareCard(o.Device)
	return o, torch.Try(func() { o.Generator = torch.NewGenerator(int64(c.Run.Seed)) })
}

// Network is a network with the images of a data set. One goroutine at a time uses it.
type Network struct {
	Model  backbone.Model
	Loader *data.Loader
	Input  *input.Input
	Size   int // side of the input

	o Options
}

// New makes the network of a configuration, on its device.
func New(o Options) (*Network, error) {
	c := o.Config
	n := &Network{o: o, Size: c.Data.ImageSize}
	var err error
	if c.Model.Backbone == config.BackboneClip {
		n.Model, err = n.clipModel()
	} else if c.Model.Weights == "" {
		if o.Saved == nil && c.Model.Init == "" && c.Data.Path != config.Shapes {
			o.Events.Say(fmt.Sprintf("no --weights: %s begins with random numbers, which takes many photos and epochs (30 by "+
				"default, here %d); with pretrained weights it takes 4: --weights FILE (torchvision's or timm's)",
				c.Model.Backbone, c.Schedule.Epochs))
		}
		n.Model, err = backbone.New(c.Model.Backbone, o.Data.C(), nn.Generator(o.Generator))
	} else {
		var loaded *backbone.Loaded
		if n.Model, loaded, err = backbone.NewFromFile(c.Model.Backbone, c.Model.Weights, o.Data.C()); err == nil {
			o.Events.Say(fmt.Sprintf("%s: %v", c.Model.Weights, loaded))
		}
	}
	if err == nil {
		n.Model, err = model.WithHead(n.Model, c.HeadSpec(), o.Data.C(), o.Generator)
	}
	if err != nil {
		return nil, err
	}
	if err := torch.Try(func() { compute.Place(n.Model, o.Device) }); err != nil {
		return nil, fmt.Errorf("%s on %v: %w", c.Model.Backbone, o.Device, err)
	}
	// A card keeps the pictures: a row crosses the bus once. On the CPU the loader's own cache is as near.
	var keep int64
	if o.Device.Type == torch.DeviceCUDA && c.Model.Mode == config.FineTune && o.Saved == nil {
		keep = input.HalfOfFree
	}
	// Channels-last order: convolutions run several times faster on it.
	in := input.Options{Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd, ChannelsLast: true}
	if n.Input, err = input.New(o.Device, n.Size, n.Size, o.Data.N(), keep, in); err != nil {
		return nil, err
	}
	n.Loader, err = data.NewLoader(o.Data, o.loader(n.Size))
	if err == nil && c.Data.Cache.Dir != "" && o.CacheBytes > 0 {
		o.Events.Say("decoded images are kept in " + n.Loader.CachedIn())
	}
	return n, err
}

// loader are the settings of the loader and its cache.
func (o *Options) loader(side int) data.LoaderOptions {
	c := o.Config
	l := data.LoaderOptions{
		Width:  side,
		Height: side,
		Log:    o.Events.Logger(),
		Read:   data.ReadOptions{Decode: c.Data.Pixels()},
	}
	if o.CacheBytes == 0 || c.Data.Cache.Kind == string(data.CacheNone) {
		return l
	}
	l.Cache, l.CacheBytes = data.CacheKind(c.Data.Cache.Kind), o.CacheBytes
	if l.CacheDir = c.Data.Cache.Dir; l.CacheDir != "" {
		if l.CacheFileBytes = int64(c.Data.Cache.FileMB) << 20; l.CacheFileBytes == 0 {
			l.CacheFileBytes = math.MaxInt64
		}
	}
	return l
}

// Broken are the images that could not be read so far.
func (n *Network) Broken() []data.Broken { return n.Loader.Broken() }

// Close frees the loader and the input.
func (n *Network) Close() error {
	n.Input.Close()
	return n.Loader.Close()
}

// forEach runs f on batches of rows in order, in inference mode, inside a scope.
func (n *Network) forEach(ctx context.Context, phase string, epoch int, rows []int,
	f func(a *torch.Arena, x *torch.Tensor)) ([]int, error) {
	nn.SetTraining(n.Model, false)
	loosen, err := model.Fix(n.Model) // DualCoOp's prompts do not change meanwhile
	if err != nil {
		return nil, err
	}
	defer loosen()
	var got []int
	start := time.Now()
	var worked time.Duration
	for b, err := range n.Loader.Batches(ctx, data.Plan{Order: rows, BatchSize: max(n.o.Config.Optim.BatchSize, 32)}) {
		begun := time.Now()
		if err != nil {
			return nil, err
		}
		torch.Scope(func(a *torch.Arena) {
			torch.NoGrad(func() {
				var x *torch.Tensor
				if x, err = n.Input.Batch(b, 0, b.Len(), false); err == nil {
					n.Cast(func() { f(a, x) })
				}
			})
		})
		if err != nil {
			return nil, err
		}
		got = append(got, b.Rows...)
		worked += time.Since(begun)
		all := time.Since(start)
		n.o.Events.Tell(progress.Step{
			Phase: phase, Epoch: epoch, Epochs: n.o.Config.Schedule.Epochs, Done: len(got), Total: len(rows),
			ImagesPerSec: float64(len(got)) / all.Seconds(), Waited: (all - worked).Seconds() / all.Seconds(),
			CardBytes: compute.UsedOn(n.o.Device),
		})
	}
	return got, nil
}

// Cast runs f in the run's precision.
func (n *Network) Cast(f func()) {
	if d, ok := computeTypes[n.o.Config.Run.Precision]; ok {
		torch.Autocast(n.o.Device.Type, d, f)
	} else {
		f()
	}
}

// Features computes the pooled features [len(got), D] of rows.
func (n *Network) Features(ctx context.Context, rows []int) (values []float32, got []int, err error) {
	var all compute.Collected
	got, err = n.forEach(ctx, "features", 0, rows, func(a *torch.Arena, x *torch.Tensor) {
		all.Add(a, n.Model.Features(x).ToDType(torch.Float32).Contiguous())
	})
	return all.Flush(), got, err
}

// Scores predicts rows in evaluation mode.
func (n *Network) Scores(ctx context.Context, phase string, epoch int, rows []int) (*rundir.Scores, error) {
	s := &rundir.Scores{}
	var err error
	var all compute.Collected
	s.Rows, err = n.forEach(ctx, phase, epoch, rows, func(a *torch.Arena, x *torch.Tensor) {
		all.Add(a, compute.Sigmoids(n.Model.Forward(x)))
	})
	s.Values = all.Flush()
	return s, err
}

// SetHead copies a trained head into the model.
func (n *Network) SetHead(weight, bias *torch.Tensor) {
	h := model.Linear(n.Model)
	torch.NoGrad(func() {
		h.Weight.Copy_(weight)
		h.Bias.Copy_(bias)
	})
}

// saved is the configuration of the model that is saved.
func (o *Options) saved(dim int) model.Config {
	c, ds := o.Config, o.Data
	side := c.Data.ImageSize
	return model.Config{
		HeadSpec: c.HeadSpec(), Architecture: c.Model.Backbone, NumClasses: ds.C(),
		NumFeatures: dim, LabelNames: ds.Classes, Threshold: o.Method.Present(), Method: c.Method.ID,
		PretrainedCfg: model.Input{
			InputSize: [3]int{3, side, side}, Interpolation: "bilinear", CropMode: "squash", CropPct: 1,
			Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd, EXIF: c.Data.EXIF,
		},
	}
}

// Save writes the model as it is now.
func (n *Network) Save(dir string) error {
	mc := n.o.saved(n.Model.FeatureDim())
	if m, ok := n.Model.(model.ClipMade); ok {
		mc.Spec = m.Spec()
	}
	return model.Save(dir, mc, nn.StateDictOf(n.Model))
}

// computeTypes are the types of autocast by precision.
var computeTypes = map[string]torch.DType{config.BF16: torch.BFloat16, config.FP16: torch.Float16}
