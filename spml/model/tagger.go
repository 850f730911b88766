package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Tagger applies a trained model to photos. It is safe for many goroutines; calls share one pool of workers.
type Tagger struct {
	Config Config
	model  backbone.Model
	plain  error // why the model is not frozen
	device torch.Device
	pool   *torch.Pool // a core for each worker
	// wide computes with all cores, on one worker of its own: for a photo that is alone.
	wide   backbone.Model
	alone  *torch.Pool
	inWork atomic.Int64
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
	// Precision is of the network on a CPU: fp32 (the default), or bf16, about twice as fast where the processor
	// multiplies bfloat16 and an error elsewhere; see [backbone.Freeze]. A folder that ExportInt8 wrote has int8 alone.
	Precision string
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
	mc, err := readConfig(Dir(dir))
	if err != nil {
		return nil, err
	}
	if mc.Quantized != nil {
		if err := opt.checkInt8(dir); err != nil {
			return nil, err
		}
	}
	opened, err := open(Dir(dir), mc)
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
	dtype, ok := map[string]torch.DType{
		"": torch.Float32, "fp32": torch.Float32, "bf16": torch.BFloat16, FormInt8: torch.Float32,
	}[opt.Precision]
	if !ok || opt.Precision == FormInt8 && mc.Quantized == nil {
		return nil, fault.Settingf("precision %q is none of fp32, bf16", opt.Precision)
	}
	var plain error
	if mc.Quantized != nil {
		m, err = int8Of(dir, &mc, m)
	} else {
		m, plain = FreezeOnly(m, dtype)
	}
	if err != nil {
		return nil, err
	}
	if plain != nil && dtype != torch.Float32 {
		return nil, fmt.Errorf("%s in %s: %w; take fp32", dir, opt.Precision, plain)
	}
	if plain != nil && !errors.Is(plain, backbone.ErrForm) {
		slog.Warn("the frozen form of the model is not available, the slower plain form is used", "reason", plain)
	}
	if opt.EXIF == "" {
		opt.EXIF = opened.Config.PretrainedCfg.EXIF
	}
	t := &Tagger{
		Config: opened.Config, model: m, plain: plain, device: device,
		pixels: pixel.Options{MaxPixels: opt.MaxPixels, MaxScans: opt.MaxScans, MaxMemory: opt.MaxMemory},
	}
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
	if t.pool, err = torch.NewPool(opt.Workers); err == nil && plain == nil && opt.Workers > 1 {
		t.wide = threads(m, opt.Workers)
		t.alone, err = torch.NewPool(1)
	}
	return t, err
}

// Frozen is nil where the model computes in its frozen form ([Freeze]), else why it does not.
func (t *Tagger) Frozen() error { return t.plain }

// run hands f to a worker: to the one that computes with all cores, where no other photo is in work.
func (t *Tagger) run(ctx context.Context, f func(m backbone.Model) error) error {
	defer t.inWork.Add(-1)
	if t.inWork.Add(1) == 1 && t.alone != nil {
		return t.alone.Run(ctx, func() error { return f(t.wide) })
	}
	return t.pool.Run(ctx, func() error { return f(t.model) })
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
	err := t.pool.CloseContext(ctx)
	if t.alone != nil {
		err = errors.Join(err, t.alone.CloseContext(ctx))
	}
	if err != nil {
		go func() { // nobody is left to hear of it
			t.pool.Close()
			if t.alone != nil {
				t.alone.Close()
			}
			_ = t.closeDecoders()
		}()
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
	err = t.run(ctx, func(m backbone.Model) (err error) {
		out, err = t.probabilities(ctx, m, photo)
		return err
	})
	return out, err
}

// probabilities runs on a worker.
func (t *Tagger) probabilities(ctx context.Context, m backbone.Model, photo []byte) (out []float32, err error) {
	x, err := t.input(photo)
	if err == nil {
		err = ctx.Err() // nobody may wait for the network's pass any more
	}
	if err != nil {
		return nil, err
	}
	torch.Scope(func(*torch.Arena) {
		torch.Inference(func() { out = torch.ToSlice[float32](compute.Sigmoids(m.Forward(t.tensor(x, 1)))) })
	})
	return out, nil
}

// Tagged is what TagBatch found in one photo.
type Tagged struct {
	Labels []Label // the most probable first; nil where Err is not
	Err    error   // why this photo could not be read
}

// TagBatch labels photos side by side. A photo that cannot be read has its own error; the others have their labels. On
// a CPU each worker decodes a photo and puts it through the network while the others do the same, with the
// probabilities of Tag and the memory of as many photos as there are workers. On a card all photos go through the
// network in one pass: the last bits depend on what shares it, and memory grows with the number of photos.
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
	if t.device.Type == torch.DeviceCPU {
		return p, errs, t.each(ctx, photos, p, errs)
	}
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

// each gives every photo to a worker, so that one is decoded while another goes through the network, and no more are in
// memory than there are workers.
func (t *Tagger) each(ctx context.Context, photos [][]byte, p [][]float32, errs []error) error {
	if len(photos) == 1 {
		p[0], errs[0] = t.Probabilities(ctx, photos[0])
		return t.ended(ctx, errs[0])
	}
	workers := min(cap(t.spare), len(photos))
	stopped := make([]error, workers)
	var next atomic.Int64
	var group sync.WaitGroup
	t.inWork.Add(1) // a photo of another caller is not alone
	defer t.inWork.Add(-1)
	for w := range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(photos) && stopped[w] == nil; i = int(next.Add(1)) - 1 {
				errs[i] = caught.Do(func() error {
					return t.pool.Run(ctx, func() (err error) {
						p[i], err = t.probabilities(ctx, t.model, photos[i])
						return err
					})
				})
				stopped[w] = t.ended(ctx, errs[i])
			}
		})
	}
	group.Wait()
	for _, err := range stopped {
		if err != nil {
			return err
		}
	}
	return nil
}

// ended gives an error that is not a photo's own: the caller's end, or the Tagger's.
func (t *Tagger) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, torch.ErrPoolClosed) {
		return err
	}
	return nil
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
