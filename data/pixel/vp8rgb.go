package pixel

import "image"

// vp8RGB converts VP8 planes (4:2:0) as libwebp does: chroma is interpolated with weights 9, 3, 3, 1 and the colours come
// from 14-bit fixed-point products (src/dsp/upsampling.c and yuv.h).
func vp8RGB(m *image.YCbCr) *RGB {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	p := newRGB(w, h)
	cw, ch := (w+1)/2, (h+1)/2
	for y := range h {
		// The chroma row of this pixel row, and the nearer one of its neighbours.
		near := y / 2
		far := min(max(near-1+y%2*2, 0), ch-1)
		luma, dst := m.Y[y*m.YStride:], p.Pix[y*w*3:]
		un, uf := m.Cb[near*m.CStride:], m.Cb[far*m.CStride:]
		vn, vf := m.Cr[near*m.CStride:], m.Cr[far*m.CStride:]
		for x := range w {
			a := x / 2
			b := a - 1 + x%2*2 // the nearer neighbour column
			var u, v int
			if b < 0 || b >= cw {
				u, v = edge(un[a], uf[a]), edge(vn[a], vf[a])
			} else {
				u, v = inner(un[a], un[b], uf[a], uf[b]), inner(vn[a], vn[b], vf[a], vf[b])
			}
			yy := int(luma[x]) * 19077 >> 8
			dst[3*x] = clip14(yy + v*26149>>8 - 14234)
			dst[3*x+1] = clip14(yy - u*6419>>8 - v*13320>>8 + 8708)
			dst[3*x+2] = clip14(yy + u*33050>>8 - 17685)
		}
	}
	return p
}

// inner is libwebp's rounding of (9 nn + 3 fn + 3 nf + ff + 8) / 16: near or far row, near or far column.
func inner(nn, nf, fn, ff byte) int {
	sum := int(nn) + int(nf) + int(fn) + int(ff) + 8
	diagonal := (sum + 2*(int(nf)+int(fn))) >> 3
	return (diagonal + int(nn)) >> 1
}

// edge is the same in the first and last column.
func edge(near, far byte) int { return (3*int(near) + int(far) + 2) >> 2 }

func clip14(v int) byte { return byte(min(max(v>>6, 0), 255)) }
