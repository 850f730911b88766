package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/input"
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
	n := &network{session: s, size: s.c.ImageSize}
	var err error
	if s.c.Backbone == BackboneClip {
		n.model, err = n.clipModel()
	} else if s.c.Weights == "" {
		n.model, err = backbone.New(s.c.Backbone, s.ds.C(), nn.Generator(s.torch))
	} else {
		var loaded *backbone.Loaded
		if n.model, loaded, err = backbone.NewFromFile(s.c.Backbone, s.c.Weights, s.ds.C()); err == nil {
			s.ev.note(fmt.Sprintf("%s: %v", s.c.Weights, loaded))
		}
	}
	if err == nil {
		n.model, err = newHeaded(n.model, s.c.headConfig(), s.ds.C(), s.torch)
	}
	if err != nil {
		return nil, err
	}
	if err := torch.Try(func() { place(n.model, s.device) }); err != nil {
		return nil, fmt.Errorf("%s on %v: %w", s.c.Backbone, s.device, err)
	}
	// A card keeps the pictures: a row crosses the bus once. On the CPU the loader's own cache is as near.
	var keep int64
	if s.device.Type == torch.DeviceCUDA && s.c.Mode == FineTune && s.saved == nil {
		keep = input.HalfOfFree
	}
	// Channels-last order: convolutions run several times faster on it.
	if n.in, err = input.New(s.device, n.size, n.size, s.ds.N(), keep, input.Options{Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd, ChannelsLast: true}); err != nil {
		return nil, err
	}
	n.loader, err = data.NewLoader(s.ds, s.loaderOptions(n.size))
	if err == nil && s.c.CacheDir != "" && s.cacheBytes > 0 {
		s.ev.note("decoded images are kept in " + n.loader.CachedIn())
	}
	return n, err
}

// loaderOptions are the settings of the loader's cache.
func (s *session) loaderOptions(side int) data.LoaderOptions {
	o := data.LoaderOptions{Width: side, Height: side, Log: s.ev.logger()}
	if s.cacheBytes == 0 || s.c.Cache == string(data.CacheNone) {
		return o
	}
	o.Cache, o.CacheBytes = data.CacheKind(s.c.Cache), s.cacheBytes
	if o.CacheDir = s.c.CacheDir; o.CacheDir != "" {
		if o.CacheFileBytes = int64(s.c.CacheFileMB) << 20; o.CacheFileBytes == 0 {
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
	if d, ok := n.model.(*dualcoop.Model); ok { // its prompts do not change meanwhile
		if err := torch.Try(d.Fix); err != nil {
			return nil, err
		}
		defer d.Loosen()
	}
	var got []int
	start := time.Now()
	var worked time.Duration
	for b, err := range n.loader.Batches(ctx, data.Plan{Order: rows, BatchSize: max(n.c.BatchSize, 32)}) {
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
		n.ev.step(Step{Phase: phase, Epoch: epoch, Epochs: n.c.Epochs, Done: len(got), Total: len(rows), ImagesPerSec: float64(len(got)) / all.Seconds(), Waited: (all - worked).Seconds() / all.Seconds()})
	}
	return got, nil
}

// cast runs f in the run's precision.
func (n *network) cast(f func()) {
	if d, ok := computeTypes[n.c.Precision]; ok {
		torch.Autocast(n.device.Type, d, f)
	} else {
		f()
	}
}

// features computes the pooled features [len(got), D] of rows.
func (n *network) features(ctx context.Context, rows []int) (values []float32, got []int, err error) {
	var all collected
	got, err = n.forEach(ctx, "features", 0, rows, func(a *torch.Arena, x *torch.Tensor) {
		all.add(a, n.model.Features(x).ToDType(torch.Float32).Contiguous())
	})
	return all.flush(), got, err
}

func (n *network) scores(ctx context.Context, phase string, epoch int, rows []int) (*Scores, error) {
	s := &Scores{}
	var err error
	var all collected
	s.Rows, err = n.forEach(ctx, phase, epoch, rows, func(a *torch.Arena, x *torch.Tensor) { all.add(a, sigmoids(n.model.Forward(x))) })
	s.Values = all.flush()
	return s, err
}

// setHead copies a trained head into the model.
func (n *network) setHead(weight, bias *torch.Tensor) {
	h := n.model.Head()
	torch.NoGrad(func() {
		h.Weight.Copy_(weight)
		h.Bias.Copy_(bias)
	})
}

// ModelConfig is config.json of a saved model. Names follow timm's.
type ModelConfig struct {
	Architecture string   `json:"architecture"`
	NumClasses   int      `json:"num_classes"`
	NumFeatures  int      `json:"num_features"`
	LabelNames   []string `json:"label_names"`
	Threshold    float64  `json:"threshold"` // above it a label counts as present
	// Thresholds of each class, which stand before Threshold where Calibrate has chosen them on validation.
	Thresholds   []float64 `json:"thresholds,omitempty"`
	Method       string    `json:"method"`
	FeaturesOnly bool      `json:"features_only,omitempty"` // a head without backbone
	headConfig
	clipHead
	PretrainedCfg pretrainedCfg `json:"pretrained_cfg"`
}

type pretrainedCfg struct {
	InputSize     [3]int     `json:"input_size"`
	Interpolation string     `json:"interpolation"`
	CropMode      string     `json:"crop_mode"` // squash: the aspect ratio is not kept
	CropPct       float64    `json:"crop_pct"`  // 1: all of the picture
	Mean          [3]float32 `json:"mean"`
	Std           [3]float32 `json:"std"`
}

// threshold is above what class c counts as present.
func (mc *ModelConfig) threshold(c int) float64 {
	if mc.Thresholds != nil {
		return mc.Thresholds[c]
	}
	return mc.Threshold
}

// threshold is what the methods' authors advise: EM's negatives sit near 0.5.
func threshold(method string) float64 {
	if method == "em" {
		return 0.75
	}
	return 0.5
}

func modelConfigOf(c Config, ds *data.Dataset, dim int) ModelConfig {
	return ModelConfig{
		headConfig: c.headConfig(), Architecture: c.Backbone, NumClasses: ds.C(), NumFeatures: dim, LabelNames: ds.Classes, Threshold: threshold(c.Method), Method: c.Method,
		PretrainedCfg: pretrainedCfg{[3]int{3, c.ImageSize, c.ImageSize}, "bilinear", "squash", 1, pixel.ImageNetMean, pixel.ImageNetStd},
	}
}

func (n *network) save(dir string) error {
	mc := modelConfigOf(n.c, n.ds, n.model.FeatureDim())
	mc.clipHead = clipHeadOf(n.model, &n.c)
	return saveModel(dir, mc, nn.StateDictOf(n.model))
}

func saveHead(dir string, c Config, ds *data.Dataset, weight, bias *torch.Tensor) error {
	mc := modelConfigOf(c, ds, weight.Size(1))
	mc.FeaturesOnly = true
	return saveModel(dir, mc, nn.StateDict{"weight": weight, "bias": bias})
}

func saveModel(dir string, mc ModelConfig, sd nn.StateDict) error {
	if err := nn.SaveSafetensors(filepath.Join(dir, modelWeights), sd, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	b, err := json.MarshalIndent(mc, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, modelConfig), 0o644, append(b, '\n'))
}

func readModelConfig(dir string) (ModelConfig, error) {
	var mc ModelConfig
	path := filepath.Join(dir, modelConfig)
	b, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return mc, fmt.Errorf("%s is no saved model (no %s); the run may have ended before its first epoch: %w", dir, modelConfig, err)
		}
		return mc, err
	}
	if err := json.Unmarshal(b, &mc); err != nil {
		return mc, fmt.Errorf("%w: %s: %v", ErrData, path, err)
	}
	if mc.NumClasses < 1 || len(mc.LabelNames) != mc.NumClasses || mc.PretrainedCfg.InputSize[1] < 1 || mc.Thresholds != nil && len(mc.Thresholds) != mc.NumClasses {
		return mc, fmt.Errorf("%w: %s: classes, label names, thresholds or input size do not fit", ErrData, path)
	}
	return mc, nil
}
