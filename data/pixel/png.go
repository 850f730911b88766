package pixel

import (
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// pngPicture is what a PNG holds before its pixels. The standard library's decoder keeps all samples beside the picture
// that is made of them (11 bytes a pixel of 16 bits with alpha), so rows are decompressed and converted here one by
// one.
type pngPicture struct {
	w, h         int
	depth, color byte
	interlaced   bool
	palette      [256][3]byte // what the file lacks is black
	rest         []byte       // from the first chunk of pixels on
}

func pngSize(b []byte) (w, h int, err error) {
	const at = len(pngSignature)
	if len(b) < at+16 || string(b[at+4:at+8]) != "IHDR" {
		return 0, 0, damaged("PNG: the file does not begin with a header")
	}
	return int(binary.BigEndian.Uint32(b[at+8:])), int(binary.BigEndian.Uint32(b[at+12:])), nil
}

// parsePNG reads the chunks before the pixels, with their checksums. [Header] has checked the first.
func parsePNG(b []byte) (*pngPicture, error) {
	f := &pngPicture{depth: b[24], color: b[25], interlaced: b[28] == 1}
	f.w, f.h, _ = pngSize(b)
	colours := 0
	for rest := b[len(pngSignature):]; ; {
		if len(rest) < 8 {
			return nil, damaged("PNG: the file ends before its pixels")
		}
		n, kind := int64(binary.BigEndian.Uint32(rest)), string(rest[4:8])
		switch {
		case kind == "IDAT":
			if f.rest = rest; f.color == 3 && colours == 0 {
				return nil, damaged("PNG: no palette")
			}
			return f, f.whole()
		case kind == "IEND":
			return nil, damaged("PNG: no pixels")
		case n > int64(len(rest))-12:
			return nil, damaged("PNG: the file ends within its chunk %q", kind)
		case crc32.ChecksumIEEE(rest[4:8+n]) != binary.BigEndian.Uint32(rest[8+n:]):
			return nil, damaged("PNG: wrong checksum of the chunk %q", kind)
		case kind == "PLTE":
			colours = min(int(n/3), len(f.palette))
			for i := range colours {
				f.palette[i] = [3]byte(rest[8+3*i:])
			}
		}
		rest = rest[12+n:]
	}
}

// whole goes through the chunks from the pixels on: Pillow wants their bodies, but neither checksums nor an end.
func (f *pngPicture) whole() error {
	for rest := f.rest; len(rest) >= 8 && string(rest[4:8]) != "IEND"; {
		n := int64(binary.BigEndian.Uint32(rest)) + 8
		if n > int64(len(rest)) {
			return damaged("PNG: the file ends within its chunk %q", rest[4:8])
		}
		rest = rest[min(n+4, int64(len(rest))):]
	}
	return nil
}

// pngPixels reads the bodies of the chunks of pixels, which follow each other. Their checksums are not looked at, as by
// Pillow.
type pngPixels struct {
	rest []byte
	body []byte
}

func (r *pngPixels) next() error {
	for len(r.body) == 0 {
		if len(r.rest) < 8 || string(r.rest[4:8]) != "IDAT" {
			return io.ErrUnexpectedEOF
		}
		n := min(int64(binary.BigEndian.Uint32(r.rest)), int64(len(r.rest)-8))
		r.body, r.rest = r.rest[8:8+n], r.rest[8+n:]
		r.rest = r.rest[min(4, len(r.rest)):]
	}
	return nil
}

func (r *pngPixels) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.next(); err != nil {
		return 0, err
	}
	n := copy(p, r.body)
	r.body = r.body[n:]
	return n, nil
}

// ReadByte lets the decompressor read without a buffer of its own.
func (r *pngPixels) ReadByte() (byte, error) {
	if err := r.next(); err != nil {
		return 0, err
	}
	c := r.body[0]
	r.body = r.body[1:]
	return c, nil
}

// pngPass is one of the pictures that an interlaced file is made of.
type pngPass struct{ x, y, dx, dy int }

var pngPasses = [...]pngPass{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}

func (f *pngPicture) passes() []pngPass {
	if f.interlaced {
		return pngPasses[:]
	}
	return []pngPass{{0, 0, 1, 1}}
}

// decodePNG reads the pixels row by row. Pillow stops once it has them all, so what follows them is not looked at.
func decodePNG(b []byte, o Options) (*RGB, error) {
	f, err := parsePNG(b)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(&pngPixels{rest: f.rest})
	if err != nil {
		return nil, damaged("PNG: %w", err)
	}
	defer z.Close()
	p := newRGB(f.w, f.h)
	convert := f.rowConverter(o)
	perPixel := f.bitsPerPixel()
	longest := 1 + (f.w*perPixel+7)/8
	now, before, line := make([]byte, longest), make([]byte, longest), make([]byte, 3*f.w)
	for _, pass := range f.passes() {
		w, h := (f.w-pass.x+pass.dx-1)/pass.dx, (f.h-pass.y+pass.dy-1)/pass.dy
		if w <= 0 || h <= 0 {
			continue
		}
		n := 1 + (w*perPixel+7)/8
		clear(before)
		for y := range h {
			if _, err := io.ReadFull(z, now[:n]); err != nil {
				return nil, damaged("PNG: row %d of %d: %w", y, h, err)
			}
			if err := unfilterPNG(now[0], now[1:n], before[1:n], max(perPixel/8, 1)); err != nil {
				return nil, err
			}
			dst := p.Pix[((pass.y+y*pass.dy)*f.w+pass.x)*3:]
			if pass.dx == 1 {
				convert(now[1:n], dst[:3*w])
			} else {
				convert(now[1:n], line[:3*w])
				for x := range w {
					copy(dst[3*x*pass.dx:][:3], line[3*x:])
				}
			}
			now, before = before, now
		}
	}
	// The end of the stream holds the checksum of the pixels.
	switch n, err := io.ReadFull(z, now[:1]); {
	case n > 0:
		return nil, damaged("PNG: more pixels than %d×%d", f.w, f.h)
	case !errors.Is(err, io.EOF):
		return nil, damaged("PNG: %w", err)
	}
	return p, nil
}

func (f *pngPicture) bitsPerPixel() int {
	return int(f.depth) * map[byte]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[f.color]
}

// rowConverter goes from samples to RGB, with Pillow's colour rules. Transparency is dropped.
func (f *pngPicture) rowConverter(o Options) func(src, dst []byte) {
	step := f.bitsPerPixel() / 8
	high := int(f.depth) / 8 // bytes of a sample, of which the first counts
	switch f.color {
	case 2, 6:
		return func(src, dst []byte) {
			for x := range len(dst) / 3 {
				s := src[step*x:]
				dst[3*x], dst[3*x+1], dst[3*x+2] = s[0], s[high], s[2*high]
			}
		}
	case 0, 4:
		if f.depth == 16 && f.color == 0 {
			return gray16(2, o)
		}
		if f.depth >= 8 {
			return func(src, dst []byte) {
				for x := range len(dst) / 3 {
					v := src[step*x]
					dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
				}
			}
		}
		for i := range 1 << f.depth {
			v := byte(i * 255 / (1<<f.depth - 1))
			f.palette[i] = [3]byte{v, v, v}
		}
	}
	perByte, mask := 8/int(f.depth), byte(1<<f.depth-1)
	return func(src, dst []byte) {
		for x := range len(dst) / 3 {
			i := src[x/perByte] >> (8 - int(f.depth)*(x%perByte+1)) & mask
			copy(dst[3*x:3*x+3], f.palette[i][:])
		}
	}
}

// unfilterPNG undoes the filter of a row; n is the number of bytes between a byte and its neighbour on the left.
func unfilterPNG(filter byte, row, above []byte, n int) error {
	above = above[:len(row)]
	switch filter {
	case 0:
	case 1:
		for i := n; i < len(row); i++ {
			row[i] += row[i-n]
		}
	case 2:
		for i, v := range above {
			row[i] += v
		}
	case 3:
		for i := range min(n, len(row)) {
			row[i] += above[i] / 2
		}
		for i := n; i < len(row); i++ {
			row[i] += byte((int(row[i-n]) + int(above[i])) / 2)
		}
	case 4:
		for i := range min(n, len(row)) {
			row[i] += above[i]
		}
		for i := n; i < len(row); i++ {
			row[i] += paeth(row[i-n], above[i], above[i-n])
		}
	default:
		return damaged("PNG: filter %d", filter)
	}
	return nil
}

// paeth is the neighbour (left, above, above left) that is nearest to left + above - corner.
func paeth(left, up, corner byte) byte {
	pa, pb := int(up)-int(corner), int(left)-int(corner)
	pc := max(pa+pb, -pa-pb)
	pa, pb = max(pa, -pa), max(pb, -pb)
	switch {
	case pa <= pb && pa <= pc:
		return left
	case pb <= pc:
		return up
	}
	return corner
}

// pngPlausible refuses a file too short for its size, before the pixels are allocated: deflate packs at most 1032 to 1.
func pngPlausible(info Info, b []byte) error {
	f := pngPicture{depth: b[24], color: b[25]}
	if raw := (int64(info.W)*int64(f.bitsPerPixel()) + 7) / 8 * int64(info.H); raw/deflateRatio > int64(len(b)) {
		return damaged("PNG: %d bytes cannot hold %d×%d pixels", len(b), info.W, info.H)
	}
	return nil
}

const deflateRatio = 1032
