package pixel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
)

// webpFrame is the first picture of a WebP file. Its alpha is dropped, so the alpha chunk is not even read.
type webpFrame struct {
	w, h     int // the canvas
	x, y     int // of the picture on it
	lossless bool
	data     []byte // the VP8 or VP8L stream
}

func parseWebP(b []byte) (f webpFrame, err error) {
	body := riffBody(b)
	if x := firstChunk(body, "VP8X"); len(x) >= 10 {
		f.w, f.h = uint24(x[4:])+1, uint24(x[7:])+1
	}
	if a := firstChunk(body, "ANMF"); len(a) >= 16 {
		f.x, f.y = 2*uint24(a), 2*uint24(a[3:])
		body = a[16:]
	}
	if f.data = firstChunk(body, "VP8 "); f.data == nil {
		f.data, f.lossless = firstChunk(body, "VP8L"), true
	}
	w, h, err := f.streamSize()
	if err != nil {
		return f, err
	}
	if f.w == 0 {
		f.w, f.h = w, h
	}
	if f.x+w > f.w || f.y+h > f.h {
		return f, damaged("WebP: a picture of %d×%d at (%d, %d) on a canvas of %d×%d", w, h, f.x, f.y, f.w, f.h)
	}
	return f, nil
}

// streamSize reads the size from the stream's own header.
func (f *webpFrame) streamSize() (w, h int, err error) {
	d := f.data
	switch {
	case f.lossless && len(d) >= 5 && d[0] == 0x2f:
		v := binary.LittleEndian.Uint32(d[1:])
		return int(v&0x3fff) + 1, int(v>>14&0x3fff) + 1, nil
	case !f.lossless && len(d) >= 10 && d[0]&1 == 0 && d[3] == 0x9d && d[4] == 0x01 && d[5] == 0x2a:
		return int(binary.LittleEndian.Uint16(d[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(d[8:]) & 0x3fff), nil
	}
	return 0, 0, damaged("WebP: no picture, or one without a valid header")
}

func webpSize(b []byte) (w, h int, err error) {
	f, err := parseWebP(b)
	return f.w, f.h, err
}

// memory is what decoding takes. Lossless files can hold any number of pixels of one colour in a few bytes, so large
// ones must be as plausible as a PNG.
func (f *webpFrame) memory() (int64, error) {
	w, h, err := f.streamSize()
	if err != nil {
		return 0, err
	}
	pixels, canvas := int64(w)*int64(h), 3*int64(f.w)*int64(f.h)
	if w == f.w && h == f.h {
		canvas = 0
	}
	if !f.lossless {
		return pixels*9/2 + canvas, nil
	}
	const anyway = 8 << 20 // pixels
	if 3*(pixels-anyway)/deflateRatio > int64(len(f.data)) {
		return 0, fmt.Errorf("%w: a lossless WebP of %d×%d pixels in %d bytes, which no photo takes", ErrTooLarge, w, h, len(f.data))
	}
	return 8*pixels + canvas, nil
}

func decodeWebP(b []byte) (*RGB, error) {
	f, err := parseWebP(b)
	if err != nil {
		return nil, err
	}
	var picture *RGB
	if f.lossless {
		m, err := vp8l.Decode(bytes.NewReader(f.data))
		if err != nil {
			return nil, damaged("WebP: %w", err)
		}
		n, ok := m.(*image.NRGBA)
		if !ok {
			return nil, unsupported("WebP: pixels of type %T", m)
		}
		picture = withoutAlpha(n)
	} else {
		m, err := decodeVP8(f.data)
		if err != nil {
			return nil, damaged("WebP: %w", err)
		}
		picture = vp8RGB(m)
	}
	if picture.W == f.w && picture.H == f.h {
		return picture, nil
	}
	p := newRGB(f.w, f.h)
	for y := range picture.H {
		copy(p.Pix[((f.y+y)*p.W+f.x)*3:], picture.Pix[y*picture.W*3:(y+1)*picture.W*3])
	}
	return p, nil
}

// withoutAlpha turns a picture into RGB in its own memory.
func withoutAlpha(m *image.NRGBA) *RGB {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	for y := range h {
		for x := range w {
			copy(m.Pix[(y*w+x)*3:][:3], m.Pix[y*m.Stride+4*x:])
		}
	}
	return &RGB{W: w, H: h, Pix: m.Pix[: 3*w*h : 3*w*h]}
}

func decodeVP8(stream []byte) (*image.YCbCr, error) {
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(stream), len(stream))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return nil, err
	}
	return d.DecodeFrame()
}

// riffBody returns the chunks of a RIFF file.
func riffBody(b []byte) []byte {
	if len(b) < 12 {
		return nil
	}
	body := b[12:]
	if n := int64(binary.LittleEndian.Uint32(b[4:])) - 4; n >= 0 && n < int64(len(body)) {
		body = body[:n]
	}
	return body
}

// firstChunk returns the body of the first chunk of that type, cut off where the file ends; nil if there is none.
func firstChunk(chunks []byte, kind string) []byte {
	for len(chunks) >= 8 {
		n := int64(binary.LittleEndian.Uint32(chunks[4:]))
		here, rest := string(chunks[:4]), chunks[8:]
		n = min(n, int64(len(rest)))
		if here == kind {
			return rest[:n]
		}
		rest = rest[n:]
		if n%2 == 1 && len(rest) > 0 {
			rest = rest[1:]
		}
		chunks = rest
	}
	return nil
}

func riffChunk(b []byte, kind string) []byte { return firstChunk(riffBody(b), kind) }

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
