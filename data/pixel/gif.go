package pixel

import (
	"compress/lzw"
	"encoding/binary"
	"io"
)

// gifFrame is the first frame of a GIF. The standard library's decoder forgets the colour of transparent pixels and the
// size of the canvas, which Pillow keeps, so the blocks are read here.
type gifFrame struct {
	w, h       int // the canvas, grown to hold the frame
	x, y       int
	fw, fh     int
	interlaced bool
	palette    []byte // RGB triplets; nil: indices are grey levels
	background byte   // index of what the frame does not cover
	bits       int    // of the code size
	data       []byte // sub-blocks with the codes
}

func parseGIF(b []byte) (f gifFrame, err error) {
	short := damaged("GIF: the file ends before the first picture")
	if len(b) < 13 {
		return f, short
	}
	f.w, f.h = int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint16(b[8:]))
	rest := b[13:]
	palette := func(flags byte) (p []byte, ok bool) {
		n := 3 << (flags&7 + 1)
		if flags&0x80 == 0 {
			return nil, true
		}
		if len(rest) < n {
			return nil, false
		}
		p, rest = rest[:n], rest[n:]
		return p, true
	}
	var ok bool
	if f.palette, ok = palette(b[10]); !ok {
		return f, short
	}
	for {
		if len(rest) < 2 {
			return f, short
		}
		switch rest[0] {
		case '!': // extension: label, sub-blocks
			const graphicControl = 0xf9
			if rest[1] == graphicControl && len(rest) >= 7 && rest[2] == 4 && rest[3]&1 != 0 {
				f.background = rest[6]
			}
			if rest, ok = skipSubBlocks(rest[2:]); !ok {
				return f, short
			}
		case ',':
			if len(rest) < 10 {
				return f, short
			}
			u := func(i int) int { return int(binary.LittleEndian.Uint16(rest[i:])) }
			f.x, f.y, f.fw, f.fh = u(1), u(3), u(5), u(7)
			flags := rest[9]
			f.interlaced = flags&0x40 != 0
			rest = rest[10:]
			local, ok := palette(flags)
			if !ok || len(rest) < 1 {
				return f, short
			}
			if local != nil {
				f.palette = local
			}
			f.bits, f.data = int(rest[0]), rest[1:]
			f.w, f.h = max(f.w, f.x+f.fw), max(f.h, f.y+f.fh)
			return f, nil
		default: // Pillow looks for the next block, too
			rest = rest[1:]
		}
	}
}

func skipSubBlocks(b []byte) (rest []byte, ok bool) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n {
			return nil, false
		}
		b = b[1+n:]
		if n == 0 {
			return b, true
		}
	}
	return nil, false
}

func gifSize(b []byte) (w, h int, err error) {
	f, err := parseGIF(b)
	return f.w, f.h, err
}

// decodeGIF puts the first frame onto its canvas.
func decodeGIF(b []byte, o Options) (*RGB, error) {
	f, err := parseGIF(b)
	if err != nil {
		return nil, err
	}
	if err := checkSize(GIF, f.w, f.h, o); err != nil {
		return nil, err
	}
	if f.fw == 0 || f.fh == 0 {
		return nil, damaged("GIF: the first picture has %d×%d pixels", f.fw, f.fh)
	}
	if f.bits < 2 || f.bits > 8 {
		return nil, damaged("GIF: a code size of %d bits", f.bits)
	}
	codes := lzw.NewReader(&subBlocks{rest: f.data}, lzw.LSB, f.bits)
	defer codes.Close()
	var table [256][3]byte // indices behind the palette are black
	for i := range table {
		switch {
		case f.palette == nil:
			table[i] = [3]byte{byte(i), byte(i), byte(i)}
		case 3*i+3 <= len(f.palette):
			table[i] = [3]byte(f.palette[3*i:])
		}
	}
	p := newRGB(f.w, f.h)
	if f.fw != f.w || f.fh != f.h {
		for i := 0; i < len(p.Pix); i += 3 {
			copy(p.Pix[i:i+3], table[f.background][:])
		}
	}
	src := make([]byte, f.fw)
	for i := range f.fh {
		if n, err := io.ReadFull(codes, src); err != nil {
			return nil, damaged("GIF: pixel %d of %d: %w", i*f.fw+n, f.fw*f.fh, err)
		}
		dst := p.Pix[((f.y+gifRow(i, f.fh, f.interlaced))*f.w+f.x)*3:]
		for x, v := range src {
			copy(dst[3*x:3*x+3], table[v][:])
		}
	}
	return p, nil
}

// gifRow is where the i-th stored row belongs.
func gifRow(i, h int, interlaced bool) int {
	if !interlaced {
		return i
	}
	for _, pass := range [...]struct{ start, step int }{{0, 8}, {4, 8}, {2, 4}, {1, 2}} {
		n := (h - pass.start + pass.step - 1) / pass.step
		if i < n {
			return pass.start + i*pass.step
		}
		i -= max(n, 0)
	}
	return h - 1
}

// subBlocks reads the bytes of a chain of sub-blocks.
type subBlocks struct {
	rest []byte
	left int // in the current block
}

func (s *subBlocks) ReadByte() (byte, error) {
	for s.left == 0 {
		if len(s.rest) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		if s.left, s.rest = int(s.rest[0]), s.rest[1:]; s.left == 0 {
			return 0, io.EOF
		}
	}
	if len(s.rest) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	c := s.rest[0]
	s.rest, s.left = s.rest[1:], s.left-1
	return c, nil
}

// Read implements io.Reader, which lzw.NewReader asks for; it calls ReadByte.
func (s *subBlocks) Read(p []byte) (int, error) {
	for i := range p {
		c, err := s.ReadByte()
		if err != nil {
			return i, err
		}
		p[i] = c
	}
	return len(p), nil
}
