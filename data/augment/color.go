package augment

import (
	"math"

	"github.com/gospml/gospml/data/pixel"
)

// Invert replaces each value v by 255 − v (ImageOps.invert).
func Invert(p *pixel.RGB) {
	for i, v := range p.Pix {
		p.Pix[i] = 255 - v
	}
}

// Posterize keeps the given number of high bits, 1 to 8 (ImageOps.posterize).
func Posterize(p *pixel.RGB, bits int) {
	mask := byte(int(256) - 1<<(8-min(max(bits, 1), 8)))
	for i := range p.Pix {
		p.Pix[i] &= mask
	}
}

// Solarize inverts the values from the threshold up (ImageOps.solarize).
func Solarize(p *pixel.RGB, threshold float64) {
	for i, v := range p.Pix {
		if float64(v) >= threshold {
			p.Pix[i] = 255 - v
		}
	}
}

type histogram [3][256]int

func histogramOf(p *pixel.RGB) (h histogram) {
	for i := 0; i+2 < len(p.Pix); i += 3 {
		h[0][p.Pix[i]]++
		h[1][p.Pix[i+1]]++
		h[2][p.Pix[i+2]]++
	}
	return h
}

func lookUp(p *pixel.RGB, tables *[3][256]byte) {
	for i := 0; i+2 < len(p.Pix); i += 3 {
		p.Pix[i] = tables[0][p.Pix[i]]
		p.Pix[i+1] = tables[1][p.Pix[i+1]]
		p.Pix[i+2] = tables[2][p.Pix[i+2]]
	}
}

func identity() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	return t
}

// AutoContrast stretches each channel to 0…255 (ImageOps.autocontrast, cutoff 0).
func AutoContrast(p *pixel.RGB) {
	h := histogramOf(p)
	var tables [3][256]byte
	for c := range tables {
		lo, hi := 0, 255
		for lo < 255 && h[c][lo] == 0 {
			lo++
		}
		for hi > 0 && h[c][hi] == 0 {
			hi--
		}
		tables[c] = identity()
		if hi <= lo {
			continue
		}
		scale := 255 / float64(hi-lo)
		offset := float64(-float64(lo) * scale)
		for i := range tables[c] {
			tables[c][i] = byte(min(max(int(float64(float64(i)*scale)+offset), 0), 255))
		}
	}
	lookUp(p, &tables)
}

// Equalize flattens the histogram of each channel (ImageOps.equalize).
func Equalize(p *pixel.RGB) {
	h := histogramOf(p)
	var tables [3][256]byte
	for c := range tables {
		tables[c] = identity()
		used, last, sum := 0, 0, 0
		for _, n := range h[c] {
			if n > 0 {
				used++
				last = n
				sum += n
			}
		}
		step := (sum - last) / 255
		if used <= 1 || step == 0 {
			continue
		}
		n := step / 2
		for i := range tables[c] {
			tables[c][i] = byte(min(n/step, 255))
			n += h[c][i]
		}
	}
	lookUp(p, &tables)
}

// luma is Pillow's conversion of a pixel to grey.
func luma(r, g, b byte) byte {
	return byte((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 0x8000) >> 16)
}

// Gray sets all three channels to the luma (transforms.Grayscale(3)).
func Gray(p *pixel.RGB) {
	for i := 0; i+2 < len(p.Pix); i += 3 {
		l := luma(p.Pix[i], p.Pix[i+1], p.Pix[i+2])
		p.Pix[i], p.Pix[i+1], p.Pix[i+2] = l, l, l
	}
}

// blender is Image.blend of two values: a + f·(b − a) in float32, cut off to a byte.
func blender(factor float64) func(a, b byte) byte {
	f := float32(factor)
	return func(a, b byte) byte {
		v := float32(a) + float32(f*float32(int(b)-int(a)))
		switch {
		case v <= 0:
			return 0
		case v >= 255:
			return 255
		}
		return byte(v)
	}
}

// Brightness blends the picture with black: factor 0 is black, 1 the picture (ImageEnhance.Brightness).
func Brightness(p *pixel.RGB, factor float64) { blendLevel(p, 0, factor) }

// Contrast blends the picture with its mean grey level (ImageEnhance.Contrast).
func Contrast(p *pixel.RGB, factor float64) {
	sum := 0
	for i := 0; i+2 < len(p.Pix); i += 3 {
		sum += int(luma(p.Pix[i], p.Pix[i+1], p.Pix[i+2]))
	}
	blendLevel(p, byte(float64(sum)/float64(p.W*p.H)+0.5), factor)
}

func blendLevel(p *pixel.RGB, level byte, factor float64) {
	blend := blender(factor)
	var table [256]byte
	for i := range table {
		table[i] = blend(level, byte(i))
	}
	for i, v := range p.Pix {
		p.Pix[i] = table[v]
	}
}

// Color blends the picture with its grey version: factor 0 is grey, 1 the picture (ImageEnhance.Color, torchvision's saturation).
func Color(p *pixel.RGB, factor float64) {
	blend := blender(factor)
	for i := 0; i+2 < len(p.Pix); i += 3 {
		l := luma(p.Pix[i], p.Pix[i+1], p.Pix[i+2])
		for c := range 3 {
			p.Pix[i+c] = blend(l, p.Pix[i+c])
		}
	}
}

// Sharpness blends the picture with a smoothed one: factor 0 is smooth, 1 the picture (ImageEnhance.Sharpness).
func Sharpness(p *pixel.RGB, factor float64) {
	if p.W < 3 || p.H < 3 {
		return // the smoothing leaves the border as it is
	}
	blend := blender(factor)
	stride := 3 * p.W
	above, here := append([]byte(nil), p.Pix[:stride]...), append([]byte(nil), p.Pix[stride:2*stride]...)
	for y := 1; y+1 < p.H; y++ {
		row, below := p.Pix[y*stride:(y+1)*stride], p.Pix[(y+1)*stride:(y+2)*stride]
		for i := 3; i < stride-3; i++ {
			sum := int(above[i-3]) + int(above[i]) + int(above[i+3]) + int(here[i-3]) + 5*int(here[i]) + int(here[i+3]) +
				int(below[i-3]) + int(below[i]) + int(below[i+3])
			row[i] = blend(byte((2*sum+13)/26), here[i])
		}
		above, here = here, above
		copy(here, below)
	}
}

// Hue turns the hue by a share of a full turn, −0.5 to 0.5, through 8-bit HSV (torchvision's adjust_hue on Pillow pictures).
func Hue(p *pixel.RGB, turn float64) {
	shift := byte(int32(turn * 255))
	for i := 0; i+2 < len(p.Pix); i += 3 {
		h, s, v := toHSV(p.Pix[i], p.Pix[i+1], p.Pix[i+2])
		p.Pix[i], p.Pix[i+1], p.Pix[i+2] = fromHSV(h+shift, s, v)
	}
}

// toHSV is Pillow's conversion, with its mixture of float32 and float64.
func toHSV(r, g, b byte) (h, s, v byte) {
	most, least := max(r, g, b), min(r, g, b)
	if most == least {
		return 0, 0, most
	}
	span := float32(most - least)
	sat := span / float32(most)
	rc, gc, bc := float32(most-r)/span, float32(most-g)/span, float32(most-b)/span
	var hue float32
	switch most {
	case r:
		hue = bc - gc
	case g:
		hue = float32(2 + float64(rc) - float64(bc))
	default:
		hue = float32(4 + float64(gc) - float64(rc))
	}
	hue = float32(math.Mod(float64(hue)/6+1, 1))
	return byte(min(max(int(float64(hue)*255), 0), 255)), byte(min(max(int(float64(sat)*255), 0), 255)), most
}

// fromHSV is Pillow's conversion back.
func fromHSV(h, s, v byte) (r, g, b byte) {
	if s == 0 {
		return v, v, v
	}
	sixth := float64(h) * 6 / 255
	i := int(math.Floor(sixth))
	f := float32(sixth - float64(i))
	fs := float32(float64(s) / 255)
	at := func(x float64) byte { return byte(min(max(int(math.Round(float64(v)*x)), 0), 255)) }
	p := at(1 - float64(fs))
	q := at(1 - float64(fs*f))
	t := at(1 - float64(float64(fs)*(1-float64(f))))
	switch i % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	}
	return v, p, q
}
