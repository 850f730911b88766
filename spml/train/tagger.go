package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Tagger applies a trained model to photos. It is safe for many goroutines; calls share one pool of workers.
type Tagger struct {
	Config ModelConfig
	model  backbone.Model
	device torch.Device
	pool   *torch.Pool
	spare  chan *pixel.Decoder // one for each worker
}

// Label is one class with its probability.
type Label struct {
	Name        string  `json:"label"`
	Probability float64 `json:"probability"`
	Present     bool    `json:"present"` // above the model's threshold
}

// TaggerOptions are the choices of Load. The zero value is one worker per core.
type TaggerOptions struct {
	Workers int // photos that are computed at once, each on one core
	// Device is where: auto (the default: a graphics card where there is one), cpu, cuda or cuda:N.
	Device string
}

// Load reads the model of a run directory (or a model folder itself).
func Load(dir string, opt TaggerOptions) (_ *Tagger, err error) {
	defer caught.Recover(&err)
	if err := torch.Available(); err != nil {
		return nil, err
	}
	m, mc, err := openModel(modelDir(dir))
	if err != nil {
		return nil, err
	}
	nn.RequiresGrad(m, false)
	device, _, err := chooseDevice(opt.Device)
	if err != nil {
		return nil, err
	}
	if err := torch.Try(func() { place(m, device) }); err != nil {
		return nil, fmt.Errorf("%s on %v: %w", dir, device, err)
	}
	if d, ok := m.(*dualcoop.Model); ok {
		if err := torch.Try(d.Fix); err != nil {
			return nil, err
		}
	}
	t := &Tagger{Config: mc, model: m, device: device}
	if opt.Workers < 1 {
		opt.Workers = runtime.NumCPU()
	}
	t.spare = make(chan *pixel.Decoder, opt.Workers)
	for range opt.Workers {
		d, err := pixel.NewDecoder(pixel.Options{})
		if err != nil {
			return nil, errors.Join(err, t.closeDecoders())
		}
		t.spare <- d
	}
	t.pool, err = torch.NewPool(opt.Workers)
	return t, err
}

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

// Close waits for the photos in work and stops the workers; photos that wait for a worker get torch.ErrPoolClosed. The Tagger cannot be used
// afterwards. CloseContext has a deadline.
func (t *Tagger) Close() error { return t.CloseContext(context.Background()) }

// CloseContext is Close that waits no longer than ctx: its error then wraps ctx's, and what is still in work ends by itself and is freed then.
func (t *Tagger) CloseContext(ctx context.Context) error {
	if err := t.pool.CloseContext(ctx); err != nil {
		go func() { t.pool.Close(); _ = t.closeDecoders() }() // nobody is left to hear of it
		return err
	}
	return t.closeDecoders()
}

// SetThreshold is the probability above which every label counts as present from now on. It must not be called beside Tag.
func (t *Tagger) SetThreshold(threshold float64) {
	t.Config.Threshold, t.Config.Thresholds = threshold, nil
}

// Present says whether a label counts as present at a probability; class is its place in Config.LabelNames.
func (t *Tagger) Present(class int, probability float32) bool {
	return class >= 0 && class < t.Config.NumClasses && float64(probability) > t.Config.threshold(class)
}

// Tag decodes one photo and returns all labels, the most probable first.
func (t *Tagger) Tag(ctx context.Context, photo []byte) ([]Label, error) {
	p, err := t.Probabilities(ctx, photo)
	if err != nil {
		return nil, err
	}
	labels := make([]Label, len(p))
	for i, v := range p {
		labels[i] = Label{t.Config.LabelNames[i], float64(v), float64(v) > t.Config.threshold(i)}
	}
	sort.SliceStable(labels, func(i, j int) bool { return labels[i].Probability > labels[j].Probability })
	return labels, nil
}

// TagFile is Tag for a file; errors name it.
func (t *Tagger) TagFile(ctx context.Context, path string) ([]Label, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	labels, err := t.Tag(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return labels, nil
}

// Probabilities decodes one photo and returns σ(z) for every class, in the order of Config.LabelNames.
func (t *Tagger) Probabilities(ctx context.Context, photo []byte) (out []float32, err error) {
	defer caught.Recover(&err)
	err = t.pool.Run(ctx, func() error {
		x, err := t.input(photo)
		if err != nil {
			return err
		}
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() { out = torch.ToSlice[float32](sigmoids(t.model.Forward(t.tensor(x)))) })
		})
		return nil
	})
	return out, err
}
