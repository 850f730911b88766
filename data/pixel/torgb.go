package pixel

import (
	"image"
	"image/color"
)

// toRGB converts what Go's decoders return, with Pillow's colour rules.
func toRGB(m image.Image, o Options) (*RGB, error) {
	b := m.Bounds()
	w, h := b.Dx(), b.Dy()
	p := newRGB(w, h)
	// row calls f with the source bytes and target of each row.
	row := func(pix []byte, stride, bytesPerPixel int, f func(src, dst []byte)) {
		for y := range h {
			f(pix[y*stride:y*stride+w*bytesPerPixel], p.Pix[y*w*3:(y+1)*w*3])
		}
	}
	switch m := m.(type) {
	case *image.Gray:
		row(m.Pix, m.Stride, 1, func(src, dst []byte) {
			for x, v := range src {
				dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
			}
		})
	case *image.Gray16:
		row(m.Pix, m.Stride, 2, gray16(2, o))
	case *image.NRGBA:
		row(m.Pix, m.Stride, 4, func(src, dst []byte) {
			for x := range w {
				copy(dst[3*x:3*x+3], src[4*x:4*x+3])
			}
		})
	case *image.NRGBA64:
		row(m.Pix, m.Stride, 8, func(src, dst []byte) {
			for x := range w {
				dst[3*x], dst[3*x+1], dst[3*x+2] = src[8*x], src[8*x+2], src[8*x+4]
			}
		})
	case *image.RGBA:
		row(m.Pix, m.Stride, 4, func(src, dst []byte) {
			for x := range w {
				if src[4*x+3] == 255 {
					copy(dst[3*x:3*x+3], src[4*x:4*x+3])
					continue
				}
				for c := range 3 {
					dst[3*x+c] = straight(src[4*x+c], src[4*x+3])
				}
			}
		})
	case *image.RGBA64: // of 16-bit RGB without alpha
		row(m.Pix, m.Stride, 8, func(src, dst []byte) {
			for x := range w {
				for c := range 3 {
					dst[3*x+c] = straight(src[8*x+2*c], src[8*x+6])
				}
			}
		})
	case *image.Paletted:
		table := paletteRGB(m.Palette)
		row(m.Pix, m.Stride, 1, func(src, dst []byte) {
			for x, i := range src {
				copy(dst[3*x:3*x+3], table[i][:])
			}
		})
	case *image.CMYK:
		row(m.Pix, m.Stride, 4, func(src, dst []byte) {
			for x := range w {
				k := 255 - int(src[4*x+3])
				for c := range 3 {
					t := int(src[4*x+c])*k + 128
					dst[3*x+c] = byte(k - (t>>8+t)>>8)
				}
			}
		})
	default:
		return nil, unsupported("pixels of type %T", m)
	}
	return p, nil
}

// gray16 converts big-endian 16-bit grey with the given bytes per pixel.
func gray16(step int, o Options) func(src, dst []byte) {
	if !o.PillowGray16 {
		o.Notices.add(noticeGray16)
	}
	return func(src, dst []byte) {
		for x := range len(dst) / 3 {
			v := src[step*x]
			if o.PillowGray16 {
				if v > 0 {
					v = 255
				} else {
					v = src[step*x+1]
				}
			}
			dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
		}
	}
}

// straight undoes the multiplication with alpha, as Pillow's RGBa to RGBA.
func straight(v, a byte) byte {
	if a == 255 || a == 0 {
		return v
	}
	return byte(min(255, 255*int(v)/int(a)))
}

// paletteRGB is the colour of each index without its alpha. Indices behind the palette are black.
func paletteRGB(p color.Palette) (table [256][3]byte) {
	for i, c := range p[:min(len(p), 256)] {
		switch c := c.(type) {
		case color.NRGBA:
			table[i] = [3]byte{c.R, c.G, c.B}
		case color.RGBA:
			table[i] = [3]byte{straight(c.R, c.A), straight(c.G, c.A), straight(c.B, c.A)}
		default:
			r, g, b, _ := c.RGBA()
			table[i] = [3]byte{byte(r >> 8), byte(g >> 8), byte(b >> 8)}
		}
	}
	return table
}
