package pixel

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Means and standard deviations per channel, of values from 0 to 1.
var (
	ImageNetMean = [3]float32{0.485, 0.456, 0.406}
	ImageNetStd  = [3]float32{0.229, 0.224, 0.225}
	CLIPMean     = [3]float32{0.48145466, 0.4578275, 0.40821073}
	CLIPStd      = [3]float32{0.26862954, 0.26130258, 0.27577711}
)

type norm struct{ mean, std [3]float32 }

// Decoder goes from the bytes of an image file to resized, normalized pixels. It keeps its scratch memory between
// calls, so that JPEG files cost no allocation. The zero value works with default [Options]. One goroutine at a time; a
// Decoder that is not closed gives its memory back when it is collected.
type Decoder struct {
	options Options
	ctx     *context
	cleanup runtime.Cleanup
	busy    atomic.Bool
	kept    []byte // of Decode
}

// NewDecoder returns a decoder, or the reason why the native library cannot be used.
func NewDecoder(o Options) (*Decoder, error) {
	d := &Decoder{options: o}
	return d, d.open()
}

func (d *Decoder) open() error {
	if d.ctx != nil {
		return nil
	}
	c, err := newContext()
	if err != nil {
		return err
	}
	d.ctx = c
	d.cleanup = runtime.AddCleanup(d, func(release func()) { release() }, c.release())
	return nil
}

// Close gives the memory back. The decoder can be used again; it then starts anew.
func (d *Decoder) Close() error {
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave.done()
	if d.ctx != nil {
		d.cleanup.Stop()
		d.ctx.release()()
		d.ctx, d.kept = nil, nil
	}
	return nil
}

var errBusy = errors.New("pixel: a Decoder is used by two goroutines at once")

// entered marks the decoder as in use; a struct instead of a closure, which would be allocated.
type entered struct{ d *Decoder }

func (d *Decoder) enter() (entered, error) {
	if !d.busy.CompareAndSwap(false, true) {
		return entered{}, errBusy
	}
	return entered{d}, nil
}

func (e entered) done() {
	e.d.busy.Store(false)
	runtime.KeepAlive(e.d)
}

// Resized decodes a file and squashes it to w × h: uint8 [h, w, 3] in dst, whose length must be 3·w·h.
func (d *Decoder) Resized(b []byte, w, h int, f Filter, dst []byte) error {
	return d.Uint8(b, Squash(w, h, f), dst)
}

// Normalized decodes a file, squashes it to w × h, mirrors it if flip, and writes (v/255 - mean)/std as float32 [3, h,
// w] to dst, whose length must be 3·w·h. The bits are those of torchvision's ToTensor and Normalize.
func (d *Decoder) Normalized(b []byte, w, h int, f Filter, mean, std [3]float32, flip bool, dst []float32) error {
	g := Squash(w, h, f)
	g.Flip = flip
	return d.Float32(b, g, mean, std, dst)
}

// Uint8 decodes a file into the geometry: uint8 [h, w, 3] in dst, of the geometry's Size.
func (d *Decoder) Uint8(b []byte, g Geometry, dst []byte) error {
	return d.run(b, g, nil, unsafe.Pointer(unsafe.SliceData(dst)), len(dst), 1)
}

// Float32 decodes a file into the geometry: (v/255 - mean)/std as float32 [3, h, w] in dst, of the geometry's Size.
func (d *Decoder) Float32(b []byte, g Geometry, mean, std [3]float32, dst []float32) error {
	return d.run(b, g, &norm{mean, std}, unsafe.Pointer(unsafe.SliceData(dst)), len(dst), 4)
}

// Decode is the function Decode with the decoder's options. A JPEG's picture lies in memory of the decoder: the next
// call of Decode writes over it.
func (d *Decoder) Decode(b []byte) (*RGB, error) {
	e, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer e.done()
	if err := d.open(); err != nil {
		return nil, err
	}
	info, err := Header(b, d.options)
	if err != nil {
		return nil, err
	}
	if info.Format != JPEG || d.options.ApplyEXIF && Orientation(b) != 1 {
		return Decode(b, d.options)
	}
	n := 3 * info.W * info.H
	d.kept = slices.Grow(d.kept[:0], n)[:n]
	if err := d.ctx.jpegDecode(b, d.options.maxPixels(), d.kept); err != nil {
		return nil, err
	}
	p := &RGB{W: info.W, H: info.H, Pix: d.kept}
	if n > keptBytes {
		d.kept = nil
	}
	return p, nil
}

// keptBytes bounds the memory that Decode keeps: a photo of 10 megapixels.
const keptBytes = 32 << 20

// TransformFloat32 brings src into the geometry and writes (v/255 - mean)/std as float32 [3, h, w] to dst, of the
// geometry's Size: Transform and Normalize in one pass.
func (d *Decoder) TransformFloat32(src *RGB, g Geometry, mean, std [3]float32, dst []float32) error {
	if err := src.check(); err != nil {
		return err
	}
	if err := checkOutput(g, len(dst)); err != nil {
		return err
	}
	e, err := d.enter()
	if err != nil {
		return err
	}
	defer e.done()
	if err := d.open(); err != nil {
		return err
	}
	d.ctx.setJob(g, &norm{mean, std}, 0)
	return d.ctx.resize(src, unsafe.Pointer(unsafe.SliceData(dst)), 4*len(dst))
}

func (d *Decoder) run(b []byte, g Geometry, n *norm, out unsafe.Pointer, length, itemSize int) error {
	if err := checkOutput(g, length); err != nil {
		return err
	}
	e, err := d.enter()
	if err != nil {
		return err
	}
	defer e.done()
	if err := d.open(); err != nil {
		return err
	}
	f, err := Sniff(b)
	if err != nil {
		return err
	}
	d.ctx.setJob(g, n, d.options.maxPixels())
	if f == JPEG && (!d.options.ApplyEXIF || Orientation(b) == 1) {
		if err := checkJPEG(b, d.options); err != nil {
			return err
		}
		return d.ctx.jpegResize(b, out, length*itemSize)
	}
	p, err := Decode(b, d.options)
	if err != nil {
		return err
	}
	return d.ctx.resize(p, out, length*itemSize)
}

// checkOutput compares the number of values of the result with the length of the slice that it goes to.
func checkOutput(g Geometry, length int) error {
	if err := g.check(); err != nil {
		return err
	}
	w, h := g.Size()
	if w < 1 || h < 1 || int64(w) > math.MaxInt64/3/int64(h) || int64(length) != 3*int64(w)*int64(h) {
		return fmt.Errorf("pixel: the result of %d×%d pixels does not take %d values", w, h, length)
	}
	return nil
}

// spare holds decoders for the package's functions.
var spare = sync.Pool{New: func() any { return new(Decoder) }}

// withContext lends a context.
func withContext(f func(*context) error) error {
	d := spare.Get().(*Decoder)
	defer spare.Put(d)
	if err := d.open(); err != nil {
		return err
	}
	defer runtime.KeepAlive(d)
	return f(d.ctx)
}

func decodeJPEG(info Info, b []byte, o Options) (*RGB, error) {
	if err := checkJPEG(b, o); err != nil { // a stream within a TIFF file has no other check
		return nil, err
	}
	p := newRGB(info.W, info.H)
	if err := withContext(func(c *context) error { return c.jpegDecode(b, o.maxPixels(), p.Pix) }); err != nil {
		return nil, err
	}
	return p, nil
}

// Resize resamples src to w × h without keeping the aspect ratio, as Pillow's Image.resize. A size that stays is a
// copy.
func Resize(src *RGB, w, h int, f Filter) (*RGB, error) { return Transform(src, Squash(w, h, f)) }

// maxResult is the most pixels that [Transform] makes.
const maxResult = 179_000_000

// Transform brings src into the geometry.
func Transform(src *RGB, g Geometry) (*RGB, error) {
	if err := src.check(); err != nil {
		return nil, err
	}
	w, h := g.Size()
	if w < 1 || h < 1 || int64(w) > maxResult/int64(h) {
		return nil, fmt.Errorf("pixel: cannot make a picture of %d×%d", w, h)
	}
	if err := checkOutput(g, 3*w*h); err != nil {
		return nil, err
	}
	p := newRGB(w, h)
	err := withContext(func(c *context) error {
		c.setJob(g, nil, 0)
		return c.resize(src, unsafe.Pointer(unsafe.SliceData(p.Pix)), len(p.Pix))
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Normalize writes (v/255 - mean)/std of a picture src, uint8 [h, w, 3], as float32 [3, h, w] to dst, mirrored if flip.
// The bits are those of torchvision's ToTensor and Normalize.
func Normalize(dst []float32, src []byte, w, h int, mean, std [3]float32, flip bool) error {
	if err := (&RGB{w, h, src}).check(); err != nil {
		return err
	}
	if len(dst) != len(src) {
		return fmt.Errorf("pixel: the normalized picture of %d×%d pixels does not take %d values", w, h, len(dst))
	}
	return withContext(func(c *context) error { return c.normalize(src, w, h, &norm{mean, std}, flip, dst) })
}

// Available says why JPEG decoding and resizing cannot work on this machine; nil if they can.
func Available() error {
	_, err := load()
	return err
}

// CPU names the kernels in use: "avx512", "avx2" or "sse".
func CPU() (string, error) {
	l, err := load()
	if err != nil {
		return "", err
	}
	return l.cpu(), nil
}

// Coefficients returns, for one axis of in pixels that becomes out pixels, the first input of each output and its
// weights in 22-bit fixed point. Not for the filters in floating point.
func Coefficients(in, out int, f Filter) (first []int32, weights [][]int32, err error) {
	if in < 1 || out < 1 || in > math.MaxInt32 || out > 1<<20 || f < 0 || f > TorchvisionBicubic {
		return nil, nil, fmt.Errorf("pixel: there are no coefficients for %v from %d to %d", f, in, out)
	}
	l, err := load()
	if err != nil {
		return nil, nil, err
	}
	first, weights = l.coefficients(in, out, f)
	return first, weights, nil
}
