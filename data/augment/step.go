package augment

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/random"
)

// Draw returns the generator of one view of one sample in one epoch.
func Draw(seed uint64, epoch, row, view int) *rand.Rand {
	a := random.Mix(seed, uint64(epoch), uint64(row), uint64(view))
	return rand.New(rand.NewPCG(a, random.Mix(a, 1)))
}

// Step is one change of a picture. It may work in place and returns the picture to go on with.
type Step interface {
	Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error)
}

// Pipeline applies its steps one after the other.
type Pipeline []Step

// Apply changes p; p itself may be used up.
func (s Pipeline) Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
	if p == nil || p.W < 1 || p.H < 1 || len(p.Pix) != 3*p.W*p.H {
		return nil, fmt.Errorf("augment: no whole picture")
	}
	var err error
	for _, step := range s {
		if p, err = step.Apply(p, r); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Func is a step that is a function.
type Func func(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error)

// Apply calls the function.
func (f Func) Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) { return f(p, r) }

// With applies a step with a probability.
func With(probability float64, s Step) Step {
	return Func(func(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
		if r.Float64() >= probability {
			return p, nil
		}
		return s.Apply(p, r)
	})
}

// inPlace makes a step of an operation without draws.
func inPlace(f func(*pixel.RGB)) Step {
	return Func(func(p *pixel.RGB, _ *rand.Rand) (*pixel.RGB, error) {
		f(p)
		return p, nil
	})
}

// RandomFlip mirrors half of the pictures.
func RandomFlip() Step { return With(0.5, inPlace(Flip)) }

// RandomGray makes a share of the pictures grey (transforms.RandomGrayscale).
func RandomGray(probability float64) Step { return With(probability, inPlace(Gray)) }

// Resize squashes the picture (transforms.Resize((h, w)) of a Pillow picture).
func Resize(w, h int, f pixel.Filter) Step {
	return Func(func(p *pixel.RGB, _ *rand.Rand) (*pixel.RGB, error) { return pixel.Resize(p, w, h, f) })
}

// RandomResizedCrop cuts out a share of the area between Scale[0] and Scale[1] with an aspect ratio between Ratio[0] and Ratio[1] (uniform in its logarithm)
// and squashes it to W × H, as torchvision's. Zero ranges are torchvision's defaults, 0.08 to 1 and 3/4 to 4/3.
type RandomResizedCrop struct {
	W, H         int
	Scale, Ratio [2]float64
	Filter       pixel.Filter
}

// Apply cuts and resizes.
func (c RandomResizedCrop) Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
	if c.Scale == [2]float64{} {
		c.Scale = [2]float64{0.08, 1}
	}
	if c.Ratio == [2]float64{} {
		c.Ratio = [2]float64{3. / 4, 4. / 3}
	}
	if c.Scale[0] > c.Scale[1] || c.Scale[0] <= 0 || c.Ratio[0] > c.Ratio[1] || c.Ratio[0] <= 0 {
		return nil, fmt.Errorf("augment: random resized crop of scale %v and ratio %v", c.Scale, c.Ratio)
	}
	return pixel.Transform(p, pixel.Geometry{W: c.W, H: c.H, Filter: c.Filter, Source: c.rectangle(p.W, p.H, r)})
}

// rectangle draws up to ten times, then takes the largest centre of an allowed ratio.
func (c RandomResizedCrop) rectangle(w, h int, r *rand.Rand) image.Rectangle {
	area := float64(w) * float64(h)
	for range 10 {
		target := area * uniform(r, c.Scale[0], c.Scale[1])
		ratio := math.Exp(uniform(r, math.Log(c.Ratio[0]), math.Log(c.Ratio[1])))
		cw, ch := int(math.RoundToEven(math.Sqrt(target*ratio))), int(math.RoundToEven(math.Sqrt(target/ratio)))
		if cw > 0 && cw <= w && ch > 0 && ch <= h {
			y, x := r.IntN(h-ch+1), r.IntN(w-cw+1)
			return image.Rect(x, y, x+cw, y+ch)
		}
	}
	cw, ch := w, h
	switch ratio := float64(w) / float64(h); {
	case ratio < c.Ratio[0]:
		ch = max(1, int(math.RoundToEven(float64(w)/c.Ratio[0])))
	case ratio > c.Ratio[1]:
		cw = max(1, int(math.RoundToEven(float64(h)*c.Ratio[1])))
	}
	x, y := (w-cw)/2, (h-ch)/2
	return image.Rect(x, y, x+cw, y+ch)
}

func uniform(r *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }

// ColorJitter changes brightness, contrast and saturation by factors uniform in 1 ± the given amounts (not below 0) and turns the hue by up to ± Hue
// of a full turn, in random order (transforms.ColorJitter).
type ColorJitter struct{ Brightness, Contrast, Saturation, Hue float64 }

// Apply draws the order, then the four amounts; an amount of 0 leaves its operation out.
func (c ColorJitter) Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
	if !(c.Brightness >= 0 && c.Contrast >= 0 && c.Saturation >= 0 && c.Hue >= 0 && c.Hue <= 0.5) {
		return nil, fmt.Errorf("augment: colour jitter of %+v", c)
	}
	order := r.Perm(4)
	factor := func(amount float64) float64 { return uniform(r, max(0, 1-amount), 1+amount) }
	b, k, s, h := factor(c.Brightness), factor(c.Contrast), factor(c.Saturation), uniform(r, -c.Hue, c.Hue)
	for _, i := range order {
		switch {
		case i == 0 && c.Brightness > 0:
			Brightness(p, b)
		case i == 1 && c.Contrast > 0:
			Contrast(p, k)
		case i == 2 && c.Saturation > 0:
			Color(p, s)
		case i == 3 && c.Hue > 0:
			Hue(p, h)
		}
	}
	return p, nil
}
