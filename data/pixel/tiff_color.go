package pixel

import (
	"encoding/binary"
	"fmt"
	"math"
)

// convert turns the samples into RGB as Pillow's convert("RGB") does.
func (f *tiffFile) convert(planes [][]byte, row int, o Options) *RGB {
	p := newRGB(f.w, f.h)
	width := f.bits / 8
	high := 0 // of a 16-bit sample: its first byte
	if f.order == binary.ByteOrder(binary.LittleEndian) {
		high = width - 1
	}
	// sample is the high byte of sample c at column x.
	sample := func(y, x, c int) byte {
		if f.planar {
			return planes[c][y*row+x*width+high]
		}
		return planes[0][y*row+(x*f.samples+c)*width+high]
	}
	var pixel func(y, x int, dst []byte)
	switch {
	case f.photo == 2:
		premultiplied := f.extra.len() > 0 && f.extra.at(0) == 1 && f.samples > 3
		pixel = func(y, x int, dst []byte) {
			for c := range 3 {
				dst[c] = sample(y, x, c)
			}
			if premultiplied {
				if a := sample(y, x, 3); a == 0 {
					dst[0], dst[1], dst[2] = 0, 0, 0
				} else {
					for c := range 3 {
						dst[c] = straight(dst[c], a)
					}
				}
			}
		}
	case f.photo == 5:
		pixel = func(y, x int, dst []byte) {
			k := 255 - int(sample(y, x, 3))
			for c := range 3 {
				t := int(sample(y, x, c))*k + 128
				dst[c] = byte(max(0, k-(t>>8+t)>>8))
			}
		}
	case f.bits <= 8:
		table := f.greys()
		perByte, mask := 8/f.bits, byte(1<<f.bits-1)
		step := 1
		if !f.planar {
			step = f.samples // 2 with alpha, then of 8 bits
		}
		pixel = func(y, x int, dst []byte) {
			x *= step
			copy(dst, table[planes[0][y*row+x/perByte]>>(8-f.bits*(x%perByte+1))&mask][:])
		}
	default:
		pixel = f.deepGrey(planes[0], row, o)
	}
	for y := range f.h {
		for x := range f.w {
			pixel(y, x, p.Pix[(y*f.w+x)*3:][:3])
		}
	}
	return p
}

// greys are the colours of samples of up to 8 bits: grey or a palette's.
func (f *tiffFile) greys() (t [256][3]byte) {
	n := 1 << f.bits
	for i := range n {
		if f.photo == 3 {
			m := f.tags[tiffColorMap]
			t[i] = [3]byte{byte(m.at(i) / 256), byte(m.at(n+i) / 256), byte(m.at(2*n+i) / 256)}
			continue
		}
		v := byte(i * 255 / (n - 1))
		if f.photo == 0 {
			v = 255 - v
		}
		t[i] = [3]byte{v, v, v}
	}
	return t
}

const noticeDeepGrey = "grey images of 32 bits or with a sign are clipped to 0…255, as Pillow does"

// deepGrey converts samples of 16 and 32 bits: unsigned 16 bits by the rule for 16-bit grey, others by clipping.
func (f *tiffFile) deepGrey(b []byte, row int, o Options) func(y, x int, dst []byte) {
	if f.bits == 16 && f.format == 1 {
		one := gray16(2, o)
		return func(y, x int, dst []byte) {
			v := f.order.Uint16(b[y*row+2*x:])
			one([]byte{byte(v >> 8), byte(v)}, dst)
		}
	}
	o.Notices.add(noticeDeepGrey)
	return func(y, x int, dst []byte) {
		var v byte
		switch {
		case f.bits == 16:
			v = byte(min(max(int16(f.order.Uint16(b[y*row+2*x:])), 0), 255))
		case f.format == 3:
			g := math.Float32frombits(f.order.Uint32(b[y*row+4*x:]))
			switch {
			case g >= 255:
				v = 255
			case g > 0:
				v = byte(g)
			}
		default:
			v = byte(min(max(int32(f.order.Uint32(b[y*row+4*x:])), 0), 255))
		}
		dst[0], dst[1], dst[2] = v, v, v
	}
}

// fromJPEG decodes blocks that are JPEG streams, whose tables may stand in the directory.
func (f *tiffFile) fromJPEG(l tiffLayout, o Options) (*RGB, error) {
	if int64(f.w)*int64(f.h)/(64*1024) > int64(len(f.b)) {
		return nil, damaged("TIFF: %d bytes cannot hold %d×%d pixels", len(f.b), f.w, f.h)
	}
	// The stream does not say what its colours are; libtiff tells libjpeg by the directory. An Adobe marker says the same.
	adobe := []byte("\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00")
	if f.photo == 6 {
		adobe[len(adobe)-1] = 1
	}
	head := append([]byte{0xff, 0xd8}, adobe...)
	if f.samples == 1 {
		head = head[:2]
	}
	if t := f.tables; len(t) > 4 && t[0] == 0xff && t[1] == 0xd8 {
		head = append(head, t[2:len(t)-2]...)
	}
	var p *RGB
	var copied, pixels, work int64 // of all streams, which may overlap
	for y := range l.down {
		for x := range l.across {
			raw, err := f.block(l, y*l.across+x, 0)
			if err != nil {
				return nil, err
			}
			if len(raw) < 4 || raw[0] != 0xff || raw[1] != 0xd8 {
				return nil, damaged("TIFF: strip or tile %d is no JPEG stream", y*l.across+x)
			}
			if copied += int64(len(head) + len(raw)); copied > 4*int64(len(f.b))+int64(l.across*l.down)*tiffSpare {
				return nil, fmt.Errorf("%w: the JPEG streams of this TIFF overlap", ErrTooLarge)
			}
			stream := append(append([]byte(nil), head...), raw[2:]...)
			w, h, err := jpegSize(stream)
			if err != nil {
				return nil, err
			}
			if w < min(l.w, f.w-x*l.w) || h < min(l.h, f.h-y*l.h) || w > l.w || h > max(l.h, f.h) {
				return nil, damaged("TIFF: a JPEG stream of %d×%d in a strip or tile of %d×%d", w, h, l.w, l.h)
			}
			size := int64(w) * int64(h)
			pixels, work = pixels+size, work+size*max(walkJPEG(stream).scans, 1)
			if pixels > 2*int64(f.w)*int64(f.h)+1<<20 || work > scansOfLargest*max(o.maxPixels(), DefaultMaxPixels) {
				return nil, fmt.Errorf("%w: the JPEG streams of this TIFF have %d pixels, %d in all their scans, the picture %d×%d", ErrTooLarge, pixels, work, f.w, f.h)
			}
			part, err := decodeJPEG(Info{Format: JPEG, W: w, H: h}, stream, o)
			if err != nil {
				return nil, err
			}
			if p == nil {
				p = newRGB(f.w, f.h)
			}
			cols := min(l.w, f.w-x*l.w)
			for r := range min(l.h, f.h-y*l.h) {
				copy(p.Pix[((y*l.h+r)*f.w+x*l.w)*3:][:cols*3], part.Pix[r*w*3:])
			}
		}
	}
	return p, nil
}
