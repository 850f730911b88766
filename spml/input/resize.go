package input

import (
	"fmt"
	"sync"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// tables are the weights of one axis on a device.
type tables struct{ bounds, weights *torch.Tensor }

type tableKey struct {
	in, out int
	filter  pixel.Filter
	device  torch.Device
}

// Resizer resamples pictures of bytes on their device and keeps the weights of the sizes that it has seen. The zero value is ready; it is safe for many goroutines.
type Resizer struct {
	mu    sync.Mutex
	known map[tableKey]tables
}

// most is how many tables a Resizer keeps; then it starts anew.
const most = 256

// Resize brings pictures, uint8 [B, H, W, 3], to [B, h, w, 3] on their device without keeping the aspect ratio, equal to [pixel.Resize] and so to Pillow in every byte. The
// filters are Pillow's, Bilinear and Bicubic.
func (r *Resizer) Resize(pixels *torch.Tensor, w, h int, f pixel.Filter) (out *torch.Tensor, err error) {
	if pixels == nil {
		return nil, fmt.Errorf("input: no pictures")
	}
	if f != pixel.Bilinear && f != pixel.Bicubic {
		return nil, fmt.Errorf("input: %v is not resampled on a device; take pixel.Resize", f)
	}
	if err := available(pixels.Device()); err != nil {
		return nil, err
	}
	var bad error
	err = torch.Try(func() {
		if pixels.Dim() != 4 || pixels.Size(3) != 3 || pixels.DType() != torch.Uint8 {
			bad = fmt.Errorf("input: pictures are %v %v, want uint8 [B, H, W, 3]", pixels.DType(), pixels.Shape())
			return
		}
		height, width := pixels.Size(1), pixels.Size(2)
		var across, down tables
		if across, bad = r.axis(tableKey{width, w, f, pixels.Device()}); bad != nil {
			return
		}
		if down, bad = r.axis(tableKey{height, h, f, pixels.Device()}); bad != nil {
			return
		}
		// Pillow 13's order of the passes.
		rowsFirst := height > h && height-h > 2*(width-w)
		out = torch.Call("spml::resample", pixels, across.bounds, across.weights, down.bounds, down.weights, rowsFirst)[0].(*torch.Tensor)
	})
	if err == nil {
		err = bad
	}
	return out, err
}

func (r *Resizer) axis(k tableKey) (tables, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.known[k]; ok {
		return t, nil
	}
	first, weights, err := pixel.Coefficients(k.in, k.out, k.filter)
	if err != nil {
		return tables{}, err
	}
	stride := 0
	for _, w := range weights {
		stride = max(stride, len(w))
	}
	bounds, flat := make([]int32, 2*k.out), make([]int32, k.out*stride)
	copy(bounds, first)
	for i, w := range weights {
		bounds[k.out+i] = int32(len(w))
		copy(flat[i*stride:], w)
	}
	var t tables
	compute.Outside(func() {
		t = tables{torch.FromSlice(bounds, 2, k.out).ToDevice(k.device), torch.FromSlice(flat, k.out, stride).ToDevice(k.device)}
	})
	if len(r.known) >= most {
		r.known = nil
	}
	if r.known == nil {
		r.known = map[tableKey]tables{}
	}
	r.known[k] = t
	return t, nil
}
