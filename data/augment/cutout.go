package augment

import (
	"image"
	"math/rand/v2"

	"github.com/gospml/gospml/data/pixel"
)

// Cutout paints a rectangle of one random colour over the picture, as DualCoOp and LAC do before RandAugment: its
// centre is any pixel, its half sides are half of int(Factor·side + 0.5). Source: milkxie/SPML-LAC @ a630052,
// lib/dataset/get_dataset.py.
type Cutout struct{ Factor float64 }

// Apply draws the centre's column and row, then red, green and blue.
func (c Cutout) Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
	x, y := r.IntN(p.W), r.IntN(p.H)
	paint(p, c.Rectangle(p.W, p.H, x, y), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)))
	return p, nil
}

// Rectangle is what is painted about a centre: corners clamped to [0, w] and [0, h]. Pillow paints Max too, where it is
// in the picture.
func (c Cutout) Rectangle(w, h, x, y int) image.Rectangle {
	dx, dy := int(c.Factor*float64(w)+0.5)/2, int(c.Factor*float64(h)+0.5)/2
	return image.Rectangle{
		Min: image.Pt(min(max(x-dx, 0), w), min(max(y-dy, 0), h)),
		Max: image.Pt(min(max(x+dx, 0), w), min(max(y+dy, 0), h)),
	}
}

// paint fills a rectangle with its lower right border, and returns the number of pixels.
func paint(p *pixel.RGB, at image.Rectangle, r, g, b byte) int {
	x1, y1 := min(at.Max.X, p.W-1), min(at.Max.Y, p.H-1)
	for y := at.Min.Y; y <= y1; y++ {
		for x := at.Min.X; x <= x1; x++ {
			copy(p.Pix[3*(y*p.W+x):][:3], []byte{r, g, b})
		}
	}
	return max(0, x1-at.Min.X+1) * max(0, y1-at.Min.Y+1)
}

// graySquare is RandAugment's own Cutout: a square of 2·(size/2) pixels about a centre, cut off at the border, in
// ImageNet's mean colour.
func graySquare(p *pixel.RGB, size, x, y int) {
	half := size / 2
	if half < 1 {
		return
	}
	paint(p, image.Rectangle{Min: image.Pt(max(0, x-half), max(0, y-half)), Max: image.Pt(min(p.W, x+half)-1, min(p.H, y+half)-1)}, 125, 122, 113)
}
