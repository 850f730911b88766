package pixel

import (
	"encoding/binary"
	"math/bits"
)

// bmpFile is a BMP's header. golang.org/x/image/bmp lacks 16 bits, masks, run lengths and OS/2's header, so the file is
// read here, by the rules of Pillow's BmpImagePlugin.
type bmpFile struct {
	w, h     int
	topDown  bool
	bits     int
	compress uint32
	masks    [3]uint32 // of red, green, blue, where compress is bmpMasks
	palette  []byte    // entries of BGR or BGRX
	entry    int       // bytes of a palette entry
	offset   int64     // of the pixels
}

const (
	bmpRaw   = 0
	bmpRLE8  = 1
	bmpRLE4  = 2
	bmpMasks = 3
)

func parseBMP(b []byte) (f bmpFile, err error) {
	short := damaged("BMP: the file ends within its header")
	if len(b) < 18 {
		return f, short
	}
	u16 := func(at int) uint32 { return uint32(binary.LittleEndian.Uint16(b[at:])) }
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	size := u32(14)
	if size != 12 && size != 40 && size != 52 && size != 56 && size != 64 && size != 108 && size != 124 {
		return f, unsupported("BMP: a header of %d bytes", size)
	}
	after := 14 + int(size)
	if len(b) < after {
		return f, short
	}
	f.offset = int64(u32(10))
	colors := uint32(0)
	if size == 12 {
		f.w, f.h, f.bits, f.entry = int(u16(18)), int(u16(20)), int(u16(24)), 3
	} else {
		h := u32(22)
		if f.topDown = b[25] == 0xff; f.topDown {
			h = -h
		}
		f.w, f.h, f.bits, f.compress, colors, f.entry = int(u32(18)), int(h), int(u16(28)), u32(30), u32(46), 4
	}
	switch f.bits {
	case 1, 4, 8, 16, 24, 32:
	default:
		return f, unsupported("BMP: %d bits a pixel", f.bits)
	}
	if f.compress > bmpMasks {
		return f, unsupported("BMP: compression %d", f.compress)
	}
	if f.w < 1 || f.h < 1 {
		return f, damaged("BMP: a picture of %d×%d", f.w, f.h)
	}
	if f.compress == bmpMasks {
		alpha := uint32(0)
		at := 54
		if size == 40 {
			if after += 12; len(b) < after {
				return f, short
			}
		} else if size >= 56 {
			alpha = u32(66)
		}
		f.masks = [3]uint32{u32(at), u32(at + 4), u32(at + 8)}
		if !bmpKnownMasks(f.bits, f.masks, alpha) {
			return f, unsupported("BMP: %d bits with the masks %x, %x, %x, %x", f.bits, f.masks[0], f.masks[1], f.masks[2], alpha)
		}
		if f.masks == [3]uint32{} {
			f.masks = [3]uint32{0xff0000, 0xff00, 0xff}
		}
	}
	if f.bits <= 8 {
		if colors == 0 {
			colors = 1 << f.bits
		}
		if colors > 65536 {
			return f, unsupported("BMP: a palette of %d colours", colors)
		}
		if f.offset == int64(after) {
			f.offset += int64(f.entry) * int64(colors)
		}
		end := min(int64(len(b)), int64(after)+int64(f.entry)*int64(colors))
		f.palette = b[after:end]
		after = int(end)
	}
	if f.offset == 0 {
		f.offset = int64(after)
	}
	return f, nil
}

// bmpKnownMasks are the layouts that Pillow knows.
func bmpKnownMasks(depth int, m [3]uint32, alpha uint32) bool {
	switch depth {
	case 16:
		return m == [3]uint32{0xf800, 0x7e0, 0x1f} || m == [3]uint32{0x7c00, 0x3e0, 0x1f}
	case 24:
		return m == [3]uint32{0xff0000, 0xff00, 0xff}
	case 32:
		switch m {
		case [3]uint32{0xff0000, 0xff00, 0xff}:
			return alpha == 0 || alpha == 0xff000000
		case [3]uint32{0xff000000, 0xff0000, 0xff00}:
			return alpha == 0 || alpha == 0xff
		case [3]uint32{0xff000000, 0xff00, 0xff}:
			return alpha == 0 || alpha == 0xff0000
		case [3]uint32{0xff, 0xff00, 0xff0000}:
			return alpha == 0xff000000
		case [3]uint32{}:
			return alpha == 0
		}
	}
	return false
}

func bmpSize(b []byte) (w, h int, err error) {
	f, err := parseBMP(b)
	return f.w, f.h, err
}

func decodeBMP(b []byte) (*RGB, error) {
	f, err := parseBMP(b)
	if err != nil {
		return nil, err
	}
	if f.compress == bmpRLE8 || f.compress == bmpRLE4 {
		return f.runs(b)
	}
	row := (int64(f.w)*int64(f.bits) + 7) / 8
	stride := (int64(f.w)*int64(f.bits) + 31) / 32 * 4
	need := stride*int64(f.h-1) + row // the last row may lack its padding
	if have := int64(len(b)) - f.offset; have < need {
		return nil, damaged("BMP: %d bytes of pixels are missing", need-max(have, 0))
	}
	pixels := b[f.offset:]
	convert := f.rowConverter()
	p := newRGB(f.w, f.h)
	for y := range f.h {
		convert(pixels[stride*int64(y):][:row], p.Pix[f.row(y)*f.w*3:][:f.w*3])
	}
	return p, nil
}

// row is where the y-th stored row belongs.
func (f *bmpFile) row(y int) int {
	if f.topDown {
		return y
	}
	return f.h - 1 - y
}

// table is the palette; what it lacks is black.
func (f *bmpFile) table() (t [256][3]byte) {
	for i := range t {
		if at := i * f.entry; at+3 <= len(f.palette) {
			t[i] = [3]byte{f.palette[at+2], f.palette[at+1], f.palette[at]}
		}
	}
	return t
}

func (f *bmpFile) rowConverter() func(src, dst []byte) {
	switch f.bits {
	case 16:
		shift := [3]int{10, 5, 0}
		limit := [3]int{31, 31, 31}
		if f.masks[0] == 0xf800 {
			shift, limit = [3]int{11, 5, 0}, [3]int{31, 63, 31}
		}
		return func(src, dst []byte) {
			for x := range len(dst) / 3 {
				v := int(binary.LittleEndian.Uint16(src[2*x:]))
				for c := range 3 {
					dst[3*x+c] = byte((v >> shift[c] & limit[c]) * 255 / limit[c])
				}
			}
		}
	case 24, 32:
		step := f.bits / 8
		at := [3]int{2, 1, 0}
		if f.compress == bmpMasks {
			for c, m := range f.masks {
				at[c] = bits.TrailingZeros32(m) / 8
			}
		}
		return func(src, dst []byte) {
			for x := range len(dst) / 3 {
				s := src[step*x:]
				dst[3*x], dst[3*x+1], dst[3*x+2] = s[at[0]], s[at[1]], s[at[2]]
			}
		}
	default:
		table := f.table()
		perByte := 8 / f.bits
		mask := byte(1<<f.bits - 1)
		return func(src, dst []byte) {
			for x := range len(dst) / 3 {
				i := src[x/perByte] >> (8 - f.bits*(x%perByte+1)) & mask
				copy(dst[3*x:3*x+3], table[i][:])
			}
		}
	}
}

// runs decodes run lengths. A picture that ends before its last pixel is damaged, as for Pillow.
func (f *bmpFile) runs(b []byte) (*RGB, error) {
	total := f.w * f.h
	indices := make([]byte, 0, total)
	rle4 := f.compress == bmpRLE4
	at := int(min(f.offset, int64(len(b))))
	x := 0
decoding:
	for len(indices) < total && at+2 <= len(b) {
		n, v := int(b[at]), b[at+1]
		at += 2
		switch {
		case n > 0:
			n = min(n, max(0, f.w-x))
			for i := range n {
				w := v
				if rle4 {
					if w = v >> 4; i%2 == 1 {
						w = v & 15
					}
				}
				indices = append(indices, w)
			}
			x += n
		case v == 0: // end of row
			if rest := len(indices) % f.w; rest > 0 {
				indices = append(indices, make([]byte, f.w-rest)...)
			}
			x = 0
		case v == 1:
			break decoding
		case v == 2: // skip
			if at+2 > len(b) {
				break decoding
			}
			indices = append(indices, make([]byte, min(total-len(indices), int(b[at])+int(b[at+1])*f.w))...)
			at += 2
			x = len(indices) % f.w
		default: // as they are
			count := min(total-len(indices), int(v))
			bytes := count
			if rle4 {
				bytes = (count + 1) / 2
			}
			if at+bytes > len(b) {
				break decoding
			}
			for i := range count {
				if rle4 {
					indices = append(indices, b[at+i/2]>>(4-4*(i%2))&15)
				} else {
					indices = append(indices, b[at+i])
				}
			}
			at += bytes
			x += int(v)
			if at%2 != 0 { // of the file, as Pillow counts
				at++
			}
		}
	}
	if len(indices) < total {
		return nil, damaged("BMP: %d of %d pixels", len(indices), total)
	}
	table := f.table()
	p := newRGB(f.w, f.h)
	for y := range f.h {
		dst := p.Pix[f.row(y)*f.w*3:]
		for i, v := range indices[y*f.w : (y+1)*f.w] {
			copy(dst[3*i:3*i+3], table[v][:])
		}
	}
	return p, nil
}
