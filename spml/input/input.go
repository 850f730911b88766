package input

import (
	"fmt"
	"sync"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// HalfOfFree as a cache's size is what all pictures need, at most half of the device's free memory.
const HalfOfFree = -1

// Input brings the batches of a loader to a device. It belongs to one goroutine at a time; Ahead gathers on another.
type Input struct {
	h, w   int
	device torch.Device
	o      Options
	store  *torch.Tensor // uint8 [places, H, W, 3] on the device; nil: no cache
	mu     sync.Mutex    // of place, which Ahead's goroutine reads
	place  map[int]int   // row -> place
	places int
	used   int
}

// New makes the input for pictures of w × h of a data set of rows rows. cacheBytes is memory of the device for
// pictures, so that a row is uploaded once; 0 keeps none: on the CPU that is right, since the loader's own cache hands
// out views.
func New(device torch.Device, w, h, rows int, cacheBytes int64, o Options) (*Input, error) {
	if w < 1 || h < 1 || rows < 0 || cacheBytes < HalfOfFree {
		return nil, fmt.Errorf("input: pictures of %d × %d, %d rows and a cache of %d bytes make no sense", w, h, rows, cacheBytes)
	}
	in := &Input{h: h, w: w, device: device, o: o.filled(), place: map[int]int{}}
	if device.Type == torch.DeviceCUDA {
		if err := available(device); err != nil {
			return nil, err
		}
	}
	image := 3 * int64(w) * int64(h)
	if cacheBytes == HalfOfFree {
		cacheBytes = 0
		if device.Type == torch.DeviceCUDA {
			free, _, err := cuda.MemoryInfo(max(device.Index, 0))
			if err != nil {
				return nil, err
			}
			cacheBytes = free / 2
		}
	}
	if in.places = int(min(cacheBytes/image, int64(rows))); in.places > 0 {
		err := torch.Try(func() {
			compute.Outside(func() { in.store = torch.Empty([]int{in.places, h, w, 3}, torch.Uint8, device) })
		})
		if err != nil {
			return nil, fmt.Errorf("input: the cache of %d pictures: %w", in.places, err)
		}
	}
	return in, nil
}

// Close frees the cache.
func (in *Input) Close() {
	if in.store != nil {
		in.store.Free()
	}
	in.store, in.place, in.places, in.used = nil, map[int]int{}, 0, 0
}

// Cached is the number of pictures that are on the device.
func (in *Input) Cached() int { return len(in.place) }

// CacheBytes is the memory of the device that is set aside for pictures.
func (in *Input) CacheBytes() int64 { return 3 * int64(in.w) * int64(in.h) * int64(in.places) }

// Batch turns the images from … to-1 of a batch into numbers [to-from, 3, H, W] on the device, mirrored where flip is
// set and the batch says so.
func (in *Input) Batch(b *data.Batch, from, to int, flip bool) (x *torch.Tensor, err error) {
	return in.batch(b, from, to, flip, func(missing []int) *torch.Tensor {
		images := make([][]byte, len(missing))
		for k, i := range missing {
			images[k] = b.Images[from+i]
		}
		return in.stack(images).Send(in.device)
	})
}

// batch is Batch; upload brings the images by number from `from` on, which the device lacks, uint8 [n, H, W, 3].
func (in *Input) batch(b *data.Batch, from, to int, flip bool, upload func(missing []int) *torch.Tensor,
) (x *torch.Tensor, err error) {
	if from < 0 || to < from || to > b.Len() {
		return nil, fmt.Errorf("input: images %d to %d of a batch of %d", from, to, b.Len())
	}
	if b.Width != in.w || b.Height != in.h {
		return nil, fmt.Errorf("input: images of %d × %d, want %d × %d", b.Width, b.Height, in.w, in.h)
	}
	var bad error
	err = torch.Try(func() {
		var mirrored *torch.Tensor
		pixels := in.pixels(b.Rows[from:to], upload)
		if flip {
			mirrored = torch.Upload(in.device, b.Flip[from:to])
		}
		x, bad = Normalize(pixels, mirrored, in.o)
	})
	if err == nil {
		err = bad
	}
	return x, err
}

// pixels are the images of rows on the device, uint8 [n, H, W, 3].
func (in *Input) pixels(rows []int, upload func(missing []int) *torch.Tensor) *torch.Tensor {
	var missing []int
	at := make([]int64, len(rows)) // place, or behind all places the number among the missing
	hits := 0
	in.mu.Lock()
	for i, r := range rows {
		if p, ok := in.place[r]; ok {
			at[i] = int64(p)
			hits++
		} else {
			at[i] = int64(in.places + len(missing))
			missing = append(missing, i)
		}
	}
	in.mu.Unlock()
	if len(rows) == 0 {
		return in.stack(nil).Send(in.device)
	}
	if len(missing) == 0 {
		return in.store.IndexSelect(0, torch.Upload(in.device, at))
	}
	up := upload(missing)
	if in.store == nil {
		return up
	}
	if keep := min(len(missing), in.places-in.used); keep > 0 {
		in.store.Narrow(0, in.used, keep).Copy_(up.Narrow(0, 0, keep))
		in.mu.Lock()
		for i, r := range rows {
			if n := int(at[i]) - in.places; n >= 0 && n < keep {
				in.place[r] = in.used + n // a row that stands twice in a batch keeps its last place; the other one is never read
			}
		}
		in.mu.Unlock()
		in.used += keep
	}
	if hits == 0 {
		return up
	}
	var known []int64
	for i, p := range at {
		if p < int64(in.places) {
			known = append(known, p)
			at[i] = int64(len(known) - 1)
		}
	}
	for i, p := range at {
		if p >= int64(in.places) {
			at[i] = p - int64(in.places) + int64(len(known))
		}
	}
	both := torch.Cat([]*torch.Tensor{in.store.IndexSelect(0, torch.Upload(in.device, known)), up}, 0)
	return both.IndexSelect(0, torch.Upload(in.device, at))
}

// stack puts images into one tensor of the host's: once through its memory, for CUDA page-locked memory.
func (in *Input) stack(images [][]byte) *torch.Tensor {
	per := 3 * in.w * in.h
	pinned := in.device.Type == torch.DeviceCUDA
	shape := []int{len(images), in.h, in.w, 3}
	p := torch.Call("aten::empty.memory_format", shape, torch.Uint8, nil, torch.CPU, pinned, nil)[0].(*torch.Tensor)
	torch.View(p, func(dst []byte) {
		for i, image := range images {
			copy(dst[i*per:(i+1)*per], image)
		}
	})
	return p
}
