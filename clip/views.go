package clip

import (
	"context"
	"fmt"
	"image"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/torch"
)

// Views decodes each file once and prepares n parts of it, each as if it were a photo of its own: float32
// [len(files)·n, 3, H, W] (bytes after SendBytes), part j of file i in row i·n + j. parts gives the n parts of file i
// of w × h pixels; it may run on any goroutine. Without parts n is 1: the whole photo, as Batch gives it.
//
// A file that cannot be read leaves zeros and its reason in broken, which has an entry a file; it is no error. The
// caller frees x.
func (p *Preprocessor) Views(ctx context.Context, files [][]byte, n int, parts func(i, w, h int) ([]image.Rectangle, error)) (x *torch.Tensor, broken []error, err error) {
	if n < 1 || parts == nil && n != 1 {
		return nil, nil, fmt.Errorf("clip: %d views of a picture", n)
	}
	h, w := p.H, p.W
	if p.Via > 0 {
		h, w = p.Via, p.Via
	}
	if err := torch.Try(func() { x = p.empty(len(files)*n, h, w) }); err != nil {
		return nil, nil, err
	}
	broken = make([]error, len(files))
	p.fill(x, func(data numbers) {
		size := 3 * h * w * n
		shared := make([]cutting, len(files))
		for i := range shared {
			shared[i].done = make(chan struct{})
		}
		var next atomic.Int64
		var wg sync.WaitGroup
		workers := p.workers
		if parts == nil {
			workers = min(workers, len(files))
		}
		used := make([]*decoding, workers)
		for k := range used {
			wg.Go(func() {
				d, _ := p.spare.Get().(*decoding)
				if d == nil {
					d = &decoding{}
				}
				used[k] = d
				for {
					i := int(next.Add(1)) - 1
					if i >= len(files) || ctx.Err() != nil {
						break
					}
					dst := data.cut(i*size, (i+1)*size)
					if parts == nil {
						broken[i] = caught.Do(func() error { return p.one(d, files[i], h, w, dst) })
						continue
					}
					c := &shared[i]
					c.open(p, d, files[i], n, func(w, h int) ([]image.Rectangle, error) { return parts(i, w, h) })
					close(c.done)
					c.work(p, d, h, w, dst)
				}
				if parts == nil {
					return
				}
				for i := range shared { // the views of the last photos are everybody's
					select {
					case <-ctx.Done():
						return
					case <-shared[i].done:
						shared[i].work(p, d, h, w, data.cut(i*size, (i+1)*size))
					}
				}
			})
		}
		wg.Wait()
		for _, d := range used { // not earlier: others read a worker's picture
			p.spare.Put(d)
		}
		for i := range shared {
			if err := shared[i].err; err != nil {
				broken[i] = err
			}
			if broken[i] != nil {
				data.cut(i*size, (i+1)*size).clear()
			}
		}
	})
	if err = ctx.Err(); err == nil && p.Via > 0 {
		err = torch.Try(func() {
			big := x
			x = big.UpsampleBilinear2dAA([]int{p.H, p.W}, false)
			big.Free()
		})
	}
	if err != nil {
		x.Free()
		return nil, nil, err
	}
	return x, broken, nil
}

// cutting is a photo whose parts several goroutines prepare.
type cutting struct {
	done  chan struct{} // closed when rgb and boxes can be read
	rgb   *pixel.RGB
	boxes []image.Rectangle
	next  atomic.Int64 // the first part that nobody has taken

	mu  sync.Mutex
	err error
}

// open decodes a file and finds its n parts.
func (c *cutting) open(p *Preprocessor, d *decoding, b []byte, n int, parts func(w, h int) ([]image.Rectangle, error)) {
	c.err = caught.Do(func() error {
		if err := d.open(p.options); err != nil {
			return err
		}
		rgb, err := d.d.Decode(b)
		if err != nil {
			return err
		}
		boxes, err := parts(rgb.W, rgb.H)
		if err != nil {
			return err
		}
		if len(boxes) != n {
			return fmt.Errorf("clip: %d parts of a picture, want %d", len(boxes), n)
		}
		for _, box := range boxes {
			if box.Empty() || !box.In(image.Rect(0, 0, rgb.W, rgb.H)) {
				return fmt.Errorf("clip: part %v of a picture of %d×%d pixels", box, rgb.W, rgb.H)
			}
		}
		c.rgb, c.boxes = rgb, boxes
		return nil
	})
}

// work prepares parts until all are taken.
func (c *cutting) work(p *Preprocessor, d *decoding, h, w int, dst numbers) {
	size := 3 * h * w
	for {
		j := int(c.next.Add(1)) - 1
		if j >= len(c.boxes) {
			return
		}
		err := caught.Do(func() error { return p.part(d, c.rgb, c.boxes[j], h, w, dst.cut(j*size, (j+1)*size)) })
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
		}
	}
}

// part prepares a part of a picture.
func (p *Preprocessor) part(d *decoding, rgb *pixel.RGB, box image.Rectangle, h, w int, dst numbers) error {
	plan := p.Preprocess
	if p.Via > 0 {
		plan.Resize = Squash
	}
	l := plan.plan(box.Dx(), box.Dy(), w, h)
	if p.Backend == Torchvision {
		part, err := pixel.Transform(rgb, pixel.Geometry{W: box.Dx(), H: box.Dy(), Source: box})
		if err != nil {
			return err
		}
		return p.torchvision(part, l, h, w, dst)
	}
	if err := d.open(p.options); err != nil {
		return err
	}
	g := pixel.Geometry{W: l.w, H: l.h, Filter: p.filter(), Source: box, Window: l.window}
	if l.whole(w, h) && dst.b == nil {
		return d.d.TransformFloat32(rgb, g, p.Mean, p.Std, dst.f)
	}
	got, err := pixel.Transform(rgb, g)
	if err != nil {
		return err
	}
	pix := got.Pix
	if !l.whole(w, h) {
		pix = make([]byte, 3*h*w)
		place(pix, got.Pix, l, w)
	}
	return p.put(dst, pix, h, w)
}
