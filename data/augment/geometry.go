package augment

import (
	"math"
	"strconv"

	"github.com/gospml/gospml/data/pixel"
)

// Fill is the grey that RandAugment puts where a picture does not reach.
const Fill = 128

// Flip mirrors the picture left to right.
func Flip(p *pixel.RGB) {
	for y := range p.H {
		row := p.Pix[y*p.W*3 : (y+1)*p.W*3]
		for a, b := 0, len(row)-3; a < b; a, b = a+3, b-3 {
			row[a], row[b] = row[b], row[a]
			row[a+1], row[b+1] = row[b+1], row[a+1]
			row[a+2], row[b+2] = row[b+2], row[a+2]
		}
	}
}

// Affine is a matrix of Pillow's Image.transform: the output pixel with centre (x, y) comes from (a·x + b·y + c, d·x + e·y + f) of the picture.
type Affine struct{ A, B, C, D, E, F float64 }

// ShearX moves each row by v times its distance from the top; bicubic, as RandAugment does it.
func ShearX(p *pixel.RGB, v float64) { bicubic(p, Affine{1, v, 0, 0, 1, 0}) }

// ShearY moves each column by v times its distance from the left; bicubic.
func ShearY(p *pixel.RGB, v float64) { bicubic(p, Affine{1, 0, 0, v, 1, 0}) }

// TranslateX moves the picture by v times its width to the left.
func TranslateX(p *pixel.RGB, v float64) { nearest(p, Affine{1, 0, v * float64(p.W), 0, 1, 0}) }

// TranslateY moves the picture by v times its height upwards.
func TranslateY(p *pixel.RGB, v float64) { nearest(p, Affine{1, 0, 0, 0, 1, v * float64(p.H)}) }

// Rotate turns the picture counter-clockwise about its middle, nearest pixel, grey outside.
func Rotate(p *pixel.RGB, degrees float64) {
	degrees = math.Mod(degrees, 360)
	if degrees < 0 {
		degrees += 360
	}
	switch {
	case degrees == 0:
		return
	case degrees == 180:
		turn180(p)
		return
	}
	a := -degrees * (math.Pi / 180)
	m := Affine{A: decimals15(math.Cos(a)), B: decimals15(math.Sin(a)), D: decimals15(-math.Sin(a)), E: decimals15(math.Cos(a))}
	cx, cy := float64(p.W)/2, float64(p.H)/2
	m.C = float64(m.A*-cx) + float64(m.B*-cy)
	m.F = float64(m.D*-cx) + float64(m.E*-cy)
	m.C += cx
	m.F += cy
	nearest(p, m)
}

// decimals15 is Python's round(x, 15).
func decimals15(x float64) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 15, 64), 64)
	return v
}

func turn180(p *pixel.RGB) {
	for a, b := 0, len(p.Pix)-3; a < b; a, b = a+3, b-3 {
		for c := range 3 {
			p.Pix[a+c], p.Pix[b+c] = p.Pix[b+c], p.Pix[a+c]
		}
	}
}

// nearest transforms by the nearest pixel as Pillow does: in steps of float64 without rotation, otherwise in 16.16 fixed point (below
// 32,768 pixels; above in float64 steps).
func nearest(p *pixel.RGB, m Affine) {
	src := p.Pix
	dst := make([]byte, len(src))
	for i := range dst {
		dst[i] = Fill
	}
	p.Pix = dst
	w, h := p.W, p.H
	put := func(x, y, sx, sy int) {
		if sx >= 0 && sx < w && sy >= 0 && sy < h {
			copy(dst[3*(y*w+x):][:3], src[3*(sy*w+sx):][:3])
		}
	}
	if m.B == 0 && m.D == 0 {
		columns := make([]int, w)
		x0 := m.C + float64(m.A*0.5)
		for x := range columns {
			columns[x] = coordinate(x0)
			x0 += m.A
		}
		y0 := m.F + float64(m.E*0.5)
		for y := range h {
			sy := coordinate(y0)
			y0 += m.E
			for x, sx := range columns {
				put(x, y, sx, sy)
			}
		}
		return
	}
	fits := func(x, y float64) bool {
		return math.Abs(x*m.A+y*m.B+m.C) < 32768 && math.Abs(x*m.D+y*m.E+m.F) < 32768
	}
	fw, fh := float64(w), float64(h)
	if fits(0, 0) && fits(fw, fh) && fits(0, fh) && fits(fw, 0) {
		fix := func(v float64) int { return int(math.Floor(float64(v*65536) + 0.5)) }
		a, b, d, e := fix(m.A), fix(m.B), fix(m.D), fix(m.E)
		c, f := fix(m.C+float64(m.A*0.5)+float64(m.B*0.5)), fix(m.F+float64(m.D*0.5)+float64(m.E*0.5))
		for y := range h {
			xx, yy := c, f
			for x := range w {
				put(x, y, xx>>16, yy>>16)
				xx += a
				yy += d
			}
			c += b
			f += e
		}
		return
	}
	c, f := m.C+float64(m.A*0.5)+float64(m.B*0.5), m.F+float64(m.D*0.5)+float64(m.E*0.5)
	for y := range h {
		xx, yy := c, f
		for x := range w {
			put(x, y, coordinate(xx), coordinate(yy))
			xx += m.A
			yy += m.D
		}
		c += m.B
		f += m.E
	}
}

// coordinate is the pixel that holds a place, -1 left of the picture.
func coordinate(v float64) int {
	if v < 0 {
		return -1
	}
	return int(v)
}

// cubic is Pillow's interpolation between b and c, with neighbours a and d; t in [0, 1). Its coefficient is −1, unlike that of resizing.
func cubic(a, b, c, d, t float64) float64 {
	p2, p3, p4 := -a+c, float64(2*(a-b))+c-d, -a+b-c+d
	return b + float64(t*(p2+float64(t*(p3+float64(t*p4)))))
}

// bicubic transforms by 4×4 neighbours, those outside repeated from the border.
func bicubic(p *pixel.RGB, m Affine) {
	src := p.Pix
	dst := make([]byte, len(src))
	p.Pix = dst
	w, h := p.W, p.H
	var columns [4]int
	for y := range h {
		for x := range w {
			out := dst[3*(y*w+x):][:3]
			cx, cy := float64(x)+0.5, float64(y)+0.5
			sx, sy := float64(m.A*cx)+float64(m.B*cy)+m.C, float64(m.D*cx)+float64(m.E*cy)+m.F
			if sx < 0 || sx >= float64(w) || sy < 0 || sy >= float64(h) {
				out[0], out[1], out[2] = Fill, Fill, Fill
				continue
			}
			sx, sy = sx-0.5, sy-0.5
			x0, y0 := int(math.Floor(sx)), int(math.Floor(sy))
			dx, dy := sx-float64(x0), sy-float64(y0)
			for i := range columns {
				columns[i] = 3 * min(max(x0-1+i, 0), w-1)
			}
			for c := range 3 {
				at := func(row int) float64 {
					r := src[3*w*min(max(row, 0), h-1)+c:]
					if dx == 0 {
						return float64(r[columns[1]])
					}
					return cubic(float64(r[columns[0]]), float64(r[columns[1]]), float64(r[columns[2]]), float64(r[columns[3]]), dx)
				}
				v := 0.0
				if dy == 0 {
					v = at(y0)
				} else {
					v = cubic(at(y0-1), at(y0), at(y0+1), at(y0+2), dy)
				}
				out[c] = byte(min(max(v, 0), 255))
			}
		}
	}
}
