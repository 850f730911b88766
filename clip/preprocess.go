package clip

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/torch"
)

// Preprocess says how a picture becomes a tower's input. Pictures are made RGB first, then resized, cropped, divided by
// 255 and normalised.
type Preprocess struct {
	Mean          [3]float32    `json:"mean"`
	Std           [3]float32    `json:"std"`
	Resize        Resize        `json:"resize"`
	Interpolation Interpolation `json:"interpolation"`
	Crop          CropRule      `json:"crop"`
	// ResizeTo is the short side's length where it is not the image's (Hugging Face's size beside crop_size); 0: the
	// image's.
	ResizeTo int `json:"resize_to,omitempty"`
	// Via squashes to a square of this side first and resizes the normalised result with torch's antialiased bilinear
	// kernel (VLPL); 0: not.
	Via int `json:"via,omitempty"`
	// Backend chooses the resampling: Pillow's (the default, what all released models were trained and measured with), or
	// torchvision's.
	Backend Backend `json:"backend,omitempty"`
}

// Resize is a geometry.
type Resize string

// Geometries.
const (
	ShortSide Resize = "shortest" // the short side becomes the image's, the centre is kept
	LongSide  Resize = "longest"  // the long side becomes the image's, black is added around
	Squash    Resize = "squash"   // both sides become the image's, the aspect ratio is not kept
)

// Interpolation is a resampling kernel.
type Interpolation string

// Kernels, as Pillow and torchvision (with antialiasing) define them.
const (
	Bicubic  Interpolation = "bicubic"
	Bilinear Interpolation = "bilinear"
)

// CropRule says where the centre lies when the rest is odd.
type CropRule string

// Crop rules: torchvision's (Python's rounding, half to even) and Hugging Face's.
const (
	CropRound CropRule = "round"
	CropFloor CropRule = "floor"
)

// Backend is a library whose bytes are reproduced.
type Backend string

// Backends.
const (
	Pillow      Backend = ""
	Torchvision Backend = "torchvision" // torchvision's 8-bit antialiased path (Hugging Face's default today): at most a level from Pillow's
)

// Variants are the ways in which the papers' code feeds CLIP, by name (see NamedPreprocess).
func Variants() []string {
	return []string{"clip", "squash", "aevlp", "dualcoop", "lac", "scpnet", "vlpl"}
}

// NamedPreprocess is one of Variants:
//
//	clip      short side, centre, bicubic, CLIP's statistics: OpenAI, open_clip, AEVLP with open_clip
//	squash    squash, bicubic, CLIP's statistics: keeps objects at the border; the default for new runs of this module's methods
//	aevlp     squash, bilinear, ImageNet's statistics: AEVLP with OpenAI's weights
//	dualcoop  squash, bilinear, CLIP's statistics
//	scpnet    short side, centre, bilinear, CLIP's statistics
//	vlpl      squash to 448, bilinear, ImageNet's statistics, then torch's bilinear kernel to the model's size
//	lac       squash, bilinear, values from 0 to 1
func NamedPreprocess(name string) (Preprocess, error) {
	p := Preprocess{Mean: pixel.CLIPMean, Std: pixel.CLIPStd, Resize: Squash, Interpolation: Bilinear, Crop: CropRound}
	switch name {
	case "clip":
		return OpenAIPreprocess, nil
	case "squash":
		p.Interpolation = Bicubic
	case "dualcoop":
	case "scpnet":
		p.Resize = ShortSide
	case "aevlp", "vlpl":
		p.Mean, p.Std = pixel.ImageNetMean, pixel.ImageNetStd
		if name == "vlpl" {
			p.Via = 448
		}
	case "lac":
		p.Mean, p.Std = [3]float32{}, [3]float32{1, 1, 1}
	default:
		return Preprocess{}, fmt.Errorf("clip: no preprocessing is named %q; there are %v", name, Variants())
	}
	return p, nil
}

func (p *Preprocess) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("clip: preprocessing: "+format, a...)
	}
	switch {
	case !slices.Contains([]Resize{ShortSide, LongSide, Squash}, p.Resize):
		return bad("%q is none of shortest, longest, squash", p.Resize)
	case p.Interpolation != Bicubic && p.Interpolation != Bilinear:
		return bad("%q is neither bicubic nor bilinear", p.Interpolation)
	case p.Crop != CropRound && p.Crop != CropFloor:
		return bad("%q is neither round nor floor", p.Crop)
	case p.Backend != Pillow && p.Backend != Torchvision:
		return bad("%q is no backend", p.Backend)
	case p.ResizeTo < 0, p.Via < 0, p.Via > 0 && p.Backend != Pillow:
		return bad("resize_to %d and via %d do not fit", p.ResizeTo, p.Via)
	case p.Std[0] <= 0 || p.Std[1] <= 0 || p.Std[2] <= 0:
		return bad("the standard deviations %v must be positive", p.Std)
	}
	return nil
}

// layout is where a picture goes: resized to w × h, of which window is kept, which lies at (x, y) of the result.
type layout struct {
	w, h   int
	window image.Rectangle
	at     image.Point
}

// plan computes the layout of a picture of iw × ih for a result of w × h.
func (p *Preprocess) plan(iw, ih, w, h int) layout {
	l := layout{w: w, h: h}
	side := func(scale float64, n int) int { return int(math.RoundToEven(float64(n) / scale)) }
	switch {
	case p.Resize == Squash:
	case p.Resize == LongSide || w != h:
		scale := min(float64(ih)/float64(h), float64(iw)/float64(w))
		if p.Resize == LongSide {
			scale = max(float64(ih)/float64(h), float64(iw)/float64(w))
		}
		l.w, l.h = max(1, side(scale, iw)), max(1, side(scale, ih))
	default:
		n := w
		if p.ResizeTo > 0 {
			n = p.ResizeTo
		}
		l.w, l.h = n, n
		if iw <= ih {
			l.h = int(float64(n) * float64(ih) / float64(iw))
		} else {
			l.w = int(float64(n) * float64(iw) / float64(ih))
		}
	}
	x, dx := p.centre(l.w, w)
	y, dy := p.centre(l.h, h)
	l.window = image.Rect(x, y, x+min(w, l.w), y+min(h, l.h))
	l.at = image.Pt(dx, dy)
	return l
}

// centre cuts n of have from the middle, or puts have into the middle of n.
func (p *Preprocess) centre(have, n int) (from, at int) {
	if have < n {
		return 0, (n - have) / 2
	}
	if p.Crop == CropFloor {
		return (have - n) / 2, 0
	}
	return int(math.RoundToEven(float64(have-n) / 2)), 0
}

func (l layout) whole(w, h int) bool { return l.window.Dx() == w && l.window.Dy() == h }

func (p *Preprocess) filter() pixel.Filter {
	if p.Interpolation == Bicubic {
		return pixel.Bicubic
	}
	return pixel.Bilinear
}

// Preprocessor turns image files into batches. It is safe for many goroutines; its decoders are kept between calls.
type Preprocessor struct {
	Preprocess
	H, W    int // of the result
	options pixel.Options
	workers int
	spare   sync.Pool
	pinned  bool // batches lie in page-locked memory
	raw     bool // batches are bytes [n, H, W, 3]; see SendBytes
}

// SendBytes has p's batches be bytes, uint8 [n, H, W, 3], where m computes on another device than the CPU and has the
// same constants: a quarter of what float32 would be goes there, and EncodeImage normalises them on the device, to the
// bits that the CPU gives. Elsewhere it does nothing. It must come before p's first batch.
func (p *Preprocessor) SendBytes(m *Model) {
	if !m.o.remote() || p.Via > 0 || m.pre == nil || m.pre.Mean != p.Mean || m.pre.Std != p.Std {
		return
	}
	p.raw, p.pinned = true, m.o.Device.Type == torch.DeviceCUDA
}

// numbers are those of a batch or of a part of one, as they are made: floats or bytes.
type numbers struct {
	f []float32
	b []byte
}

func (n numbers) cut(from, to int) numbers {
	if n.b != nil {
		return numbers{b: n.b[from:to]}
	}
	return numbers{f: n.f[from:to]}
}

func (n numbers) clear() { clear(n.f); clear(n.b) }

// fill runs f on the memory of a batch.
func (p *Preprocessor) fill(x *torch.Tensor, f func(n numbers)) {
	if p.raw {
		torch.View(x, func(b []byte) { f(numbers{b: b}) })
		return
	}
	torch.View(x, func(v []float32) { f(numbers{f: v}) })
}

// put makes the numbers of a whole picture's bytes, h × w.
func (p *Preprocessor) put(dst numbers, pix []byte, h, w int) error {
	if dst.b != nil {
		copy(dst.b, pix)
		return nil
	}
	return pixel.Normalize(dst.f, pix, w, h, p.Mean, p.Std, false)
}

// NewPreprocessor makes a preprocessor for pictures of h × w. workers is how many decode at once; < 1 means one per
// core.
func NewPreprocessor(p Preprocess, h, w, workers int, o pixel.Options) (*Preprocessor, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if h < 1 || w < 1 || h > maxSide || w > maxSide {
		return nil, fmt.Errorf("clip: preprocessing: a picture of %d×%d, want sides of 1 to %d", h, w, maxSide)
	}
	if err := pixel.Available(); err != nil {
		return nil, err
	}
	if workers < 1 {
		workers = runtime.NumCPU()
	}
	return &Preprocessor{Preprocess: p, H: h, W: w, options: o, workers: workers}, nil
}

// decoding is what one goroutine needs.
type decoding struct {
	d    *pixel.Decoder
	part []byte // a window that does not fill the picture
	full []byte
}

func (d *decoding) open(o pixel.Options) (err error) {
	if d.d == nil {
		d.d, err = pixel.NewDecoder(o)
	}
	return err
}

// Batch decodes files (their bytes; JPEG and what package pixel reads) to float32 [len(files), 3, H, W]. The error
// names the first file that failed by its place. Inside a scope the result belongs to it.
func (p *Preprocessor) Batch(ctx context.Context, files [][]byte) (*torch.Tensor, error) {
	return p.batch(ctx, len(files), func(i int) ([]byte, error) { return files[i], nil })
}

// batch fetches and decodes n files in parallel. fetch may run on any goroutine.
func (p *Preprocessor) batch(ctx context.Context, n int, fetch func(i int) ([]byte, error)) (*torch.Tensor, error) {
	h, w := p.H, p.W
	if p.Via > 0 {
		h, w = p.Via, p.Via
	}
	var out *torch.Tensor
	if err := torch.Try(func() { out = p.empty(n, h, w) }); err != nil {
		return nil, err
	}
	var err error
	p.fill(out, func(data numbers) {
		size := 3 * h * w
		errs := make([]error, n)
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(p.workers, n) {
			wg.Go(func() {
				d, _ := p.spare.Get().(*decoding)
				if d == nil {
					d = &decoding{}
				}
				defer p.spare.Put(d)
				for {
					i := int(next.Add(1)) - 1
					if i >= n || ctx.Err() != nil {
						return
					}
					errs[i] = caught.Do(func() error {
						b, err := fetch(i)
						if err == nil {
							err = p.one(d, b, h, w, data.cut(i*size, (i+1)*size))
						}
						return err
					})
				}
			})
		}
		wg.Wait()
		if err = ctx.Err(); err != nil {
			return
		}
		for i, e := range errs {
			if e != nil {
				err = &PictureError{Index: i, Err: e}
				return
			}
		}
	})
	if err == nil && p.Via > 0 {
		err = torch.Try(func() {
			big := out
			out = big.UpsampleBilinear2dAA([]int{p.H, p.W}, false)
			big.Free()
		})
	}
	if err != nil {
		out.Free()
		return nil, err
	}
	return out, nil
}

// PictureError says which picture of a batch failed.
type PictureError struct {
	Index int
	Err   error
}

func (e *PictureError) Error() string { return fmt.Sprintf("picture %d: %v", e.Index, e.Err) }

// Unwrap is the reason.
func (e *PictureError) Unwrap() error { return e.Err }

func (p *Preprocessor) one(d *decoding, b []byte, h, w int, dst numbers) error {
	if err := d.open(p.options); err != nil {
		return err
	}
	info, err := pixel.Header(b, p.options)
	if err != nil {
		return err
	}
	info.W, info.H = info.Shown(b, p.options)
	plan := p.Preprocess
	if p.Via > 0 {
		plan.Resize = Squash
	}
	l := plan.plan(info.W, info.H, w, h)
	if p.Backend == Torchvision {
		rgb, err := pixel.Decode(b, p.options)
		if err != nil {
			return err
		}
		return p.torchvision(rgb, l, h, w, dst)
	}
	g := pixel.Geometry{W: l.w, H: l.h, Filter: p.filter(), Window: l.window}
	if l.whole(w, h) {
		if dst.b != nil {
			return d.d.Uint8(b, g, dst.b)
		}
		return d.d.Float32(b, g, p.Mean, p.Std, dst.f)
	}
	n := 3 * l.window.Dx() * l.window.Dy()
	d.part = slices.Grow(d.part[:0], n)[:n]
	if err := d.d.Uint8(b, g, d.part); err != nil {
		return err
	}
	d.full = slices.Grow(d.full[:0], 3*h*w)[:3*h*w]
	place(d.full, d.part, l, w)
	return p.put(dst, d.full, h, w)
}

// place puts a part into a black picture.
func place(full, part []byte, l layout, w int) {
	clear(full)
	row := 3 * l.window.Dx()
	for y := range l.window.Dy() {
		copy(full[3*((l.at.Y+y)*w+l.at.X):], part[y*row:(y+1)*row])
	}
}

// torchvision resizes with libtorch's antialiased kernels on 8 bits, as torchvision does on a CPU.
func (p *Preprocessor) torchvision(rgb *pixel.RGB, l layout, h, w int, dst numbers) error {
	return torch.Try(func() {
		var err error
		torch.Scope(func(*torch.Arena) {
			x := torch.FromSlice(rgb.Pix, 1, rgb.H, rgb.W, 3).Permute(0, 3, 1, 2) // channels last
			if l.w != rgb.W || l.h != rgb.H {
				size := []int{l.h, l.w}
				if p.Interpolation == Bicubic {
					x = x.UpsampleBicubic2dAA(size, false)
				} else {
					x = x.UpsampleBilinear2dAA(size, false)
				}
			}
			x = x.Slice(2, l.window.Min.Y, l.window.Max.Y, 1).Slice(3, l.window.Min.X, l.window.Max.X, 1).Permute(0, 2, 3, 1).Contiguous()
			pix := torch.ToSlice[uint8](x)
			if !l.whole(w, h) {
				full := make([]byte, 3*h*w)
				place(full, pix, l, w)
				pix = full
			}
			err = p.put(dst, pix, h, w)
		})
		if err != nil {
			panic(&torch.Error{Kind: torch.KindValue, Op: "clip.Preprocess", Msg: err.Error()})
		}
	})
}

var errNoImages = errors.New("clip: the model has no image tower")
var errNoText = errors.New("clip: the model has no text tower")
