package clip

import (
	"context"
	"fmt"
	"image"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/torch"
)

// Views decodes each file once and prepares n parts of it, each as if it were a photo of its own: float32 [len(files)·n, 3, H, W], part j of file i in row
// i·n + j. parts gives the n parts of file i, which is w × h pixels; it may run on any goroutine. Without parts n is 1: the whole photo, as Batch gives it.
//
// A file that cannot be read leaves zeros and its reason in broken, which has an entry a file; it is no error. The caller frees x.
func (p *Preprocessor) Views(ctx context.Context, files [][]byte, n int, parts func(i, w, h int) ([]image.Rectangle, error)) (x *torch.Tensor, broken []error, err error) {
	if n < 1 || parts == nil && n != 1 {
		return nil, nil, fmt.Errorf("clip: %d views of a picture", n)
	}
	h, w := p.H, p.W
	if p.Via > 0 {
		h, w = p.Via, p.Via
	}
	if err := torch.Try(func() { x = torch.Empty(torch.S(len(files)*n, 3, h, w)) }); err != nil {
		return nil, nil, err
	}
	broken = make([]error, len(files))
	torch.View(x, func(data []float32) {
		size := 3 * h * w
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(p.workers, len(files)) {
			wg.Go(func() {
				d, _ := p.spare.Get().(*decoding)
				if d == nil {
					d = &decoding{}
				}
				defer p.spare.Put(d)
				for {
					i := int(next.Add(1)) - 1
					if i >= len(files) || ctx.Err() != nil {
						return
					}
					dst := data[i*n*size : (i+1)*n*size]
					if parts == nil {
						broken[i] = p.one(d, files[i], h, w, dst)
					} else {
						broken[i] = p.cut(files[i], n, h, w, dst, func(w, h int) ([]image.Rectangle, error) { return parts(i, w, h) })
					}
					if broken[i] != nil {
						clear(dst)
					}
				}
			})
		}
		wg.Wait()
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

// cut prepares n parts of a file.
func (p *Preprocessor) cut(b []byte, n, h, w int, dst []float32, parts func(w, h int) ([]image.Rectangle, error)) error {
	rgb, err := pixel.Decode(b, p.options)
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
	size := 3 * h * w
	for j, box := range boxes {
		if box.Empty() || !box.In(image.Rect(0, 0, rgb.W, rgb.H)) {
			return fmt.Errorf("clip: part %v of a picture of %d×%d pixels", box, rgb.W, rgb.H)
		}
		if err := p.part(rgb, box, h, w, dst[j*size:(j+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// part prepares a part of a picture.
func (p *Preprocessor) part(rgb *pixel.RGB, box image.Rectangle, h, w int, dst []float32) error {
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
	got, err := pixel.Transform(rgb, pixel.Geometry{W: l.w, H: l.h, Filter: p.filter(), Source: box, Window: l.window})
	if err != nil {
		return err
	}
	pix := got.Pix
	if !l.whole(w, h) {
		pix = make([]byte, 3*h*w)
		place(pix, got.Pix, l, w)
	}
	return pixel.Normalize(dst, pix, w, h, p.Mean, p.Std, false)
}
