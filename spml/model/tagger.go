package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sort"
	"sync"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Tagger applies a trained model to photos. It is safe for many goroutines; calls share one pool of workers.
type Tagger struct {
	Config Config
	model  backbone.Model
	device torch.Device
	pool   *torch.Pool
	spare  chan *pixel.Decoder // one for each worker
	pixels pixel.Options
}

// Label is one class with its probability.
type Label struct {
	Name        string  `json:"label"`
	Probability float64 `json:"probability"`
	Present     bool    `json:"present"` // above the model's threshold
}

// TaggerOptions are the choices of OpenTagger. The zero value is one worker per core.
type TaggerOptions struct {
	Workers int // photos that are computed at once, each on one core
	// Device is where: auto (the default: a graphics card where there is one), cpu, cuda or cuda:N.
	Device string
	// EXIF says what is done with the orientation of a photo: apply or ignore. "" is what the model was trained with, as
	// its config.json records it; without a record, ignore.
	EXIF string
	// MaxPixels, MaxScans and MaxMemory bound a photo as those of pixel.Options do; 0 means their defaults. A photo beyond
	// them is a pixel.ErrTooLarge.
	MaxPixels int64
	MaxScans  int
	MaxMemory int64
}

// OpenTagger reads the model of a run directory (or a model folder itself).
func OpenTagger(dir string, opt TaggerOptions) (_ *Tagger, err error) {
	defer caught.Recover(&err)
	if err := torch.Available(); err != nil {
		return nil, err
	}
	opened, err := Open(dir)
	if err != nil {
		return nil, err
	}
	m := opened.Net
	nn.RequiresGrad(m, false)
	device, _, err := compute.Choose(opt.Device)
	if err != nil {
		return nil, err
	}
	if err := torch.Try(func() { compute.Place(m, device) }); err != nil {
		return nil, fmt.Errorf("%s on %v: %w", dir, device, err)
	}
	if _, err := Fix(m); err != nil {
		return nil, err
	}
	if opt.EXIF == "" {
		opt.EXIF = opened.Config.PretrainedCfg.EXIF
	}
	t := &Tagger{Config: opened.Config, model: m, device: device, pixels: pixel.Options{MaxPixels: opt.MaxPixels, MaxScans: opt.MaxScans, MaxMemory: opt.MaxMemory}}
	if t.pixels.ApplyEXIF, err = pixel.ParseEXIF(opt.EXIF); err != nil {
		return nil, err
	}
	if opt.Workers < 1 {
		opt.Workers = runtime.NumCPU()
	}
	t.spare = make(chan *pixel.Decoder, opt.Workers)
	for range opt.Workers {
		d, err := pixel.NewDecoder(t.pixels)
		if err != nil {
			return nil, errors.Join(err, t.closeDecoders())
		}
		t.spare <- d
	}
	t.pool, err = torch.NewPool(opt.Workers)
	return t, err
}

// Pixels are the options that photos are decoded with, for who shows them beside their labels.
func (t *Tagger) Pixels() pixel.Options { return t.pixels }

// Device is where the model computes.
func (t *Tagger) Device() torch.Device { return t.device }

func (t *Tagger) closeDecoders() (err error) {
	for {
		select {
		case d := <-t.spare:
			err = errors.Join(err, d.Close())
		default:
			return err
		}
	}
}

// Close waits for the photos in work and stops the workers; photos that wait for a worker get torch.ErrPoolClosed. The
// Tagger cannot be used afterwards. CloseContext has a deadline.
func (t *Tagger) Close() error { return t.CloseContext(context.Background()) }

// CloseContext is Close that waits no longer than ctx: its error then wraps ctx's, and what is still in work ends by
// itself and is freed then.
func (t *Tagger) CloseContext(ctx context.Context) error {
	if err := t.pool.CloseContext(ctx); err != nil {
		go func() { t.pool.Close(); _ = t.closeDecoders() }() // nobody is left to hear of it
		return err
	}
	return t.closeDecoders()
}

// SetThreshold is the probability above which every label counts as present from now on. It must not be called beside
// Tag.
func (t *Tagger) SetThreshold(threshold float64) {
	t.Config.Threshold, t.Config.Thresholds = threshold, nil
}

// Present says whether a label counts as present at a probability; class is its place in Config.LabelNames.
func (t *Tagger) Present(class int, probability float32) bool {
	return class >= 0 && class < t.Config.NumClasses && float64(probability) > t.Config.ThresholdOf(class)
}

// Tag decodes one photo and returns all labels, the most probable first.
func (t *Tagger) Tag(ctx context.Context, photo []byte) ([]Label, error) {
	p, err := t.Probabilities(ctx, photo)
	if err != nil {
		return nil, err
	}
	return t.labels(p), nil
}

// labels are the classes with their probabilities, the most probable first.
func (t *Tagger) labels(p []float32) []Label {
	labels := make([]Label, len(p))
	for i, v := range p {
		labels[i] = Label{t.Config.LabelNames[i], float64(v), float64(v) > t.Config.ThresholdOf(i)}
	}
	sort.SliceStable(labels, func(i, j int) bool { return labels[i].Probability > labels[j].Probability })
	return labels
}

// TagFile is Tag for a file; errors name it.
func (t *Tagger) TagFile(ctx context.Context, path string) ([]Label, error) {
	b, err := pixel.ReadFile(path)
	if err != nil {
		return nil, named(path, err)
	}
	labels, err := t.Tag(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return labels, nil
}

// named puts a path before an error that does not begin with it.
func named(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Probabilities decodes one photo and returns σ(z) for every class, in the order of Config.LabelNames.
func (t *Tagger) Probabilities(ctx context.Context, photo []byte) (out []float32, err error) {
	defer caught.Recover(&err)
	err = t.pool.Run(ctx, func() error {
		x, err := t.input(photo)
		if err == nil {
			err = ctx.Err() // nobody may wait for the network's pass any more
		}
		if err != nil {
			return err
		}
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() { out = torch.ToSlice[float32](compute.Sigmoids(t.model.Forward(t.tensor(x, 1)))) })
		})
		return nil
	})
	return out, err
}

// Tagged is what TagBatch found in one photo.
type Tagged struct {
	Labels []Label // the most probable first; nil where Err is not
	Err    error   // why this photo could not be read
}

// TagBatch decodes photos side by side and puts them through the network in one pass, which is faster for many photos
// than as many calls of Tag. A photo that cannot be read has its own error; the others have their labels. Its
// probabilities are those of Tag up to the last bits, which depend on what shares a pass. Memory grows with the number
// of photos.
func (t *Tagger) TagBatch(ctx context.Context, photos [][]byte) ([]Tagged, error) {
	p, errs, err := t.ProbabilitiesBatch(ctx, photos)
	if err != nil {
		return nil, err
	}
	out := make([]Tagged, len(photos))
	for i := range out {
		if out[i].Err = errs[i]; errs[i] == nil {
			out[i].Labels = t.labels(p[i])
		}
	}
	return out, nil
}

// ProbabilitiesBatch is TagBatch with σ(z) of every class, in the order of Config.LabelNames; errs has the reason of
// each photo that could not be read, whose row is nil.
func (t *Tagger) ProbabilitiesBatch(ctx context.Context, photos [][]byte) (p [][]float32, errs []error, err error) {
	defer caught.Recover(&err)
	p, errs = make([][]float32, len(photos)), make([]error, len(photos))
	err = t.pool.Run(ctx, func() error {
		inputs := t.decodeAll(ctx, photos, errs)
		if err := ctx.Err(); err != nil {
			return err
		}
		var all []float32
		var at []int
		for i, x := range inputs {
			if errs[i] == nil {
				all, at = append(all, x...), append(at, i)
			}
		}
		if len(at) == 0 {
			return nil
		}
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() {
				values, c := torch.ToSlice[float32](compute.Sigmoids(t.model.Forward(t.tensor(all, len(at))))), t.Config.NumClasses
				for k, i := range at {
					p[i] = values[k*c : (k+1)*c : (k+1)*c]
				}
			})
		})
		return nil
	})
	return p, errs, err
}

// decodeAll decodes photos side by side, as many at once as there are decoders. It runs on a worker, so that Close
// waits for it.
func (t *Tagger) decodeAll(ctx context.Context, photos [][]byte, errs []error) [][]float32 {
	inputs := make([][]float32, len(photos))
	var group sync.WaitGroup
	for i := range photos {
		if ctx.Err() != nil {
			break
		}
		d := <-t.spare
		group.Go(func() {
			defer func() { t.spare <- d }()
			defer caught.Recover(&errs[i])
			inputs[i], errs[i] = t.decode(d, photos[i])
		})
	}
	group.Wait()
	return inputs
}

// input decodes a photo as the model was trained on them.
func (t *Tagger) input(photo []byte) ([]float32, error) {
	d := <-t.spare
	defer func() { t.spare <- d }()
	return t.decode(d, photo)
}

func (t *Tagger) decode(d *pixel.Decoder, photo []byte) ([]float32, error) {
	in := t.Config.PretrainedCfg
	h, w := in.InputSize[1], in.InputSize[2]
	x := make([]float32, 3*h*w)
	return x, d.Normalized(photo, w, h, pixel.Bilinear, in.Mean, in.Std, false, x)
}

// tensor is the input of n photos.
func (t *Tagger) tensor(x []float32, n int) *torch.Tensor {
	h, w := t.Config.PretrainedCfg.InputSize[1], t.Config.PretrainedCfg.InputSize[2]
	return torch.FromSlice(x, n, 3, h, w).ContiguousFormat(torch.ChannelsLast).ToDevice(t.device)
}
