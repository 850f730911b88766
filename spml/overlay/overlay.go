// Package overlay draws where a model looked: a heat map over a photo, and sheets of such pictures.
package overlay

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"

	xdraw "golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/gospml/gospml/data/pixel"
)

// Draw blends a map of h rows and w columns over a photo: enlarged bicubically to the photo's size, scaled from its least to its largest value, negative
// values (evidence against the label) as 0. A map without differences is drawn as nothing.
func Draw(photo *pixel.RGB, heat []float32, h, w int) (*image.RGBA, error) {
	if len(heat) != h*w || h < 1 || w < 1 {
		return nil, fmt.Errorf("overlay: a map of %d values is not %d×%d", len(heat), h, w)
	}
	out := image.NewRGBA(image.Rect(0, 0, photo.W, photo.H))
	for i := range photo.W * photo.H {
		copy(out.Pix[4*i:4*i+3], photo.Pix[3*i:3*i+3])
		out.Pix[4*i+3] = 255
	}
	lo, hi := heat[0], heat[0]
	for _, v := range heat {
		lo, hi = min(lo, v), max(hi, v)
	}
	lo = max(lo, 0)
	if !(hi > lo) {
		return out, nil
	}
	small := image.NewGray16(image.Rect(0, 0, w, h))
	for i, v := range heat {
		small.SetGray16(i%w, i/w, color.Gray16{Y: uint16(65535 * (max(v, lo) - lo) / (hi - lo))})
	}
	large := image.NewGray16(out.Rect)
	xdraw.CatmullRom.Scale(large, large.Rect, small, small.Rect, xdraw.Src, nil)
	for y := range photo.H {
		for x := range photo.W {
			v := float64(large.Gray16At(x, y).Y) / 65535
			c, at := Heat(v), out.PixOffset(x, y)
			alpha := 0.6 * v
			for k, b := range [3]uint8{c.R, c.G, c.B} {
				out.Pix[at+k] = uint8((1-alpha)*float64(out.Pix[at+k]) + alpha*float64(b) + 0.5)
			}
		}
	}
	return out, nil
}

// stops of the colour scale, dark violet over red to pale yellow: its lightness rises, so it reads without colours too.
var stops = [...][3]float64{{0, 0, 4}, {87, 16, 110}, {188, 55, 84}, {249, 142, 9}, {252, 255, 164}}

// Heat is the colour of a value in [0, 1].
func Heat(v float64) color.RGBA {
	at := min(max(v, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	f := at - float64(i)
	mix := func(k int) uint8 { return uint8(stops[i][k] + f*(stops[i+1][k]-stops[i][k]) + 0.5) }
	return color.RGBA{mix(0), mix(1), mix(2), 255}
}

// Tile is a picture of a sheet with its caption.
type Tile struct {
	Image   image.Image
	Caption string
}

// Sheet lays rows of tiles out as squares of the given side, each with its caption below.
func Sheet(rows [][]Tile, side int) *image.RGBA {
	const caption, gap = 16, 4
	columns := 0
	for _, r := range rows {
		columns = max(columns, len(r))
	}
	out := image.NewRGBA(image.Rect(0, 0, columns*(side+gap)+gap, len(rows)*(side+caption+gap)+gap))
	draw.Draw(out, out.Rect, image.White, image.Point{}, draw.Src)
	for y, r := range rows {
		for x, t := range r {
			at := image.Pt(gap+x*(side+gap), gap+y*(side+caption+gap))
			b := t.Image.Bounds()
			scale := min(float64(side)/float64(b.Dx()), float64(side)/float64(b.Dy()))
			w, h := int(scale*float64(b.Dx())), int(scale*float64(b.Dy()))
			to := image.Rect(0, 0, w, h).Add(at).Add(image.Pt((side-w)/2, (side-h)/2))
			xdraw.CatmullRom.Scale(out, to, t.Image, b, xdraw.Src, nil)
			f := font.Drawer{Dst: out, Src: image.Black, Face: basicfont.Face7x13, Dot: fixed.P(at.X, at.Y+side+12)}
			f.DrawString(t.Caption[:min(len(t.Caption), side/7)])
		}
	}
	return out
}
