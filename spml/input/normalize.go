package input

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
)

// Options say what numbers the pictures become. The zero value is ImageNet's constants, float32, row-major.
type Options struct {
	Mean, Std    [3]float32  // per channel, of values from 0 to 1; both zero: ImageNet's
	DType        torch.DType // Float32, Float16 or BFloat16; the zero value is Float32
	ChannelsLast bool        // memory in the order of NHWC, which convolutions on CPUs are faster on
}

func (o Options) filled() Options {
	if o.Mean == [3]float32{} && o.Std == [3]float32{} {
		o.Mean, o.Std = pixel.ImageNetMean, pixel.ImageNetStd
	}
	if o.DType == 0 {
		o.DType = torch.Float32
	}
	return o
}

// available loads the operators that tensors on this device need.
func available(d torch.Device) error {
	if d.Type == torch.DeviceCUDA {
		return oplib.CUDA()
	}
	return oplib.CPU()
}

var sayComposed = sync.OnceFunc(func() {
	slog.Warn("the input's operators are not available, the slower composed form is used", "reason", oplib.CPU())
})

// Normalize turns pictures, uint8 [B, H, W, 3], into (v/255 - mean)/std as [B, 3, H, W] on their device. flip is bool [B], which pictures are mirrored, or nil for none.
func Normalize(pixels, flip *torch.Tensor, o Options) (x *torch.Tensor, err error) {
	o = o.filled()
	if pixels == nil {
		return nil, fmt.Errorf("input: no pictures")
	}
	if err := available(pixels.Device()); err != nil {
		if pixels.Device().Type == torch.DeviceCUDA {
			return nil, err
		}
		sayComposed()
		err := torch.Try(func() { x = composed(pixels, flip, o) })
		return x, err
	}
	err = torch.Try(func() {
		x = torch.Call("spml::normalize_images", pixels, flip, widen(o.Mean), widen(o.Std), o.DType, o.ChannelsLast)[0].(*torch.Tensor)
	})
	return x, err
}

func widen(v [3]float32) []float64 { return []float64{float64(v[0]), float64(v[1]), float64(v[2])} }

// composed is Normalize in libtorch's operators.
func composed(pixels, flip *torch.Tensor, o Options) *torch.Tensor {
	d := pixels.Device()
	constant := func(v [3]float32) *torch.Tensor { return torch.FromSlice(v[:], 1, 3, 1, 1).ToDevice(d) }
	p := pixels.Permute(0, 3, 1, 2)
	if flip != nil {
		p = torch.Where(flip.Reshape(-1, 1, 1, 1), p.Flip(3), p)
	}
	x := p.ToDType(torch.Float32).DivScalar(255).Sub(constant(o.Mean)).Div(constant(o.Std)).ToDType(o.DType)
	if o.ChannelsLast {
		return x.ContiguousFormat(torch.ChannelsLast)
	}
	return x.Contiguous()
}
