package pixel

import (
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
)

// Filter is a resampling filter: a kernel and the arithmetic of the library that is followed byte for byte. The zero value is Bilinear.
type Filter int

const (
	// Bilinear is Pillow's: a triangle of support 1, 22-bit weights, 8 bits between the passes. What the papers use.
	Bilinear Filter = iota
	// Bicubic is Pillow's: Keys' kernel with a = -0.5, support 2. What CLIP uses.
	Bicubic
	// TorchvisionBilinear is torchvision's resize of uint8 tensors with antialias (transforms.v2, the fast processors of Hugging Face): 16-bit weights.
	// Up to one level from Pillow's in 10 to 20 % of the bytes.
	TorchvisionBilinear
	// TorchvisionBicubic is the same with the bicubic kernel.
	TorchvisionBicubic
	// TorchvisionFloatBilinear is torchvision's resize of tensors by way of float32 (transforms v1), rounded half to even at the end.
	TorchvisionFloatBilinear
	// TorchvisionFloatBicubic is the same with the bicubic kernel.
	TorchvisionFloatBicubic
)

var filterNames = [...]string{"bilinear", "bicubic", "torchvision-bilinear", "torchvision-bicubic", "torchvision-float-bilinear", "torchvision-float-bicubic"}

func (f Filter) String() string {
	if f.known() {
		return filterNames[f]
	}
	return fmt.Sprintf("Filter(%d)", int(f))
}

func (f Filter) known() bool { return f >= 0 && int(f) < len(filterNames) }

// ParseFilter returns the filter of a name: bilinear, bicubic, torchvision-bilinear, torchvision-bicubic, torchvision-float-bilinear or
// torchvision-float-bicubic.
func ParseFilter(name string) (Filter, error) {
	if i := slices.Index(filterNames[:], name); i >= 0 {
		return Filter(i), nil
	}
	return 0, fmt.Errorf("pixel: unknown filter %q: one of %s", name, strings.Join(filterNames[:], ", "))
}

// Geometry says how a picture becomes another: take Source of it as if it had been cropped first, resize that to W × H, keep
// Window of the result, mirror it if Flip is set.
type Geometry struct {
	W, H   int
	Filter Filter
	// Source is a part of the picture; the zero rectangle is all of it.
	Source image.Rectangle
	// Window is the part of the resized picture that is kept (and computed); the zero rectangle is all of it.
	// Flip mirrors the resized picture, so Window counts in the mirrored one.
	Window image.Rectangle
	Flip   bool
}

// Squash resizes to w × h without keeping the aspect ratio: what the papers feed their classifiers (448 × 448, bilinear).
func Squash(w, h int, f Filter) Geometry { return Geometry{W: w, H: h, Filter: f} }

// ShortSide is CLIP's preprocessing of a picture of w × h: the short side becomes n, the long side is truncated to whole
// pixels, and the centre n × n is kept, its corner rounded half to even as Python does.
func ShortSide(w, h, n int, f Filter) Geometry {
	g := Geometry{W: n, H: n, Filter: f}
	if w < 1 || h < 1 || n < 1 {
		return g // refused by whoever uses it
	}
	if w <= h {
		g.H = int(float64(n) * float64(h) / float64(w))
	} else {
		g.W = int(float64(n) * float64(w) / float64(h))
	}
	left := int(math.RoundToEven(float64(g.W-n) / 2))
	top := int(math.RoundToEven(float64(g.H-n) / 2))
	g.Window = image.Rect(left, top, left+n, top+n)
	return g
}

// Size is the width and height of the result.
func (g Geometry) Size() (w, h int) {
	if g.Window == (image.Rectangle{}) {
		return g.W, g.H
	}
	return g.Window.Dx(), g.Window.Dy()
}

// check refuses what cannot cross the border as 32-bit numbers; the rest is the library's to judge.
func (g Geometry) check() error {
	for _, v := range []int{g.W, g.H, g.Source.Min.X, g.Source.Min.Y, g.Source.Max.X, g.Source.Max.Y,
		g.Window.Min.X, g.Window.Min.Y, g.Window.Max.X, g.Window.Max.Y} {
		if int(int32(v)) != v {
			return fmt.Errorf("pixel: %d is no size of a picture", v)
		}
	}
	if !g.Filter.known() {
		return fmt.Errorf("pixel: %v is unknown", g.Filter)
	}
	return nil
}
