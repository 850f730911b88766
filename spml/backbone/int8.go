package backbone

import (
	"fmt"
	"iter"

	"github.com/gospml/gospml/spml/internal/graph"
	"github.com/gospml/gospml/torch"
)

// ErrInt8 is wrapped by errors of Quantize about a calibration that is that of another network.
var ErrInt8 = graph.ErrInt8

// Scale says what the integers q of 0 to 255 of an activation stand for: (q - Zero)·Scale. A Scale of 0 is that of an
// activation that stays floats.
type Scale = graph.Scale

// Calibration is what Calibrate finds of a network beside its weights.
type Calibration struct {
	Photos int               // seen
	Scales []Scale           // of the input and the activations, in the order of the network's steps
	Shifts map[int][]float32 // of a step's biases [C]: what rounding its weights takes from the means of its outputs
}

// Photos are inputs [1, 3, H, W] as a model takes them; an error ends them.
type Photos = iter.Seq2[*torch.Tensor, error]

// Calibrate runs a model over photos and chooses for every activation the range that 8 bits stand for: the one with the
// least squared error over all photos, which clips numbers far from the others. It computes in float32 on any CPU. A
// model without a frozen form is an error that wraps ErrForm.
func Calibrate(m Model, photos Photos) (*Calibration, error) {
	var c *graph.Calibrator
	f, err := freeze(m, func(f func(b *graph.Builder)) (n *graph.Network, err error) {
		if c, err = graph.NewCalibrator(f); err != nil {
			return nil, err
		}
		return c.Network(), nil
	})
	if err != nil {
		return nil, err
	}
	defer c.Free()
	out := &Calibration{}
	for x, err := range photos {
		if err != nil {
			return nil, err
		}
		if e := torch.Try(func() { err = c.See(x, f.table(x), 0) }); e != nil {
			return nil, e
		}
		if err != nil {
			return nil, fmt.Errorf("backbone: photo %d of the calibration: %w", out.Photos+1, err)
		}
		out.Photos++
	}
	if out.Photos == 0 {
		return nil, fmt.Errorf("backbone: a calibration wants at least one photo")
	}
	return out, torch.Try(func() {
		torch.NoGrad(func() {
			q := c.Int8()
			out.Scales, out.Shifts = q.Scales, q.Shifts
		})
	})
}

// Quantize makes the int8 form of a model for inference on this CPU: [Freeze] with weights of 8 bits, a scale for each
// output channel, and activations of 8 bits as a calibration of the same model chose them. Sums are int32. What comes
// after the mean over pixels (the features, a linear head) stays float32, and so do normalisation, attention and the
// stream that they are added to. Bits are the same for any batch and number of threads. A processor that does not
// multiply int8 (AVX512_VNNI) is an error.
func Quantize(m Model, c *Calibration) (Model, error) {
	f, err := freeze(m, func(f func(b *graph.Builder)) (*graph.Network, error) {
		return graph.BuildInt8(&graph.Int8{Scales: c.Scales, Shifts: c.Shifts}, f)
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}
