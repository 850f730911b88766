//go:build cgo

package pixel

import (
	"bytes"
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// gifBytes writes one frame whose codes are all preceded by a clear code, so that any index can be stored plainly.
func gifBytes(screen image.Point, frame image.Rectangle, palette []byte, transparent int, interlaced bool, indices ...byte) []byte {
	bits := 2
	for len(palette)>>bits > 3 {
		bits++
	}
	b := append([]byte("GIF89a"), byte(screen.X), 0, byte(screen.Y), 0)
	if palette == nil {
		b = append(b, 0, 3, 0)
	} else {
		b = append(b, 0x80|byte(bits-1), 3, 0)
		b = append(append(b, palette...), make([]byte, 3<<bits-len(palette))...)
	}
	if transparent >= 0 {
		b = append(b, '!', 0xf9, 4, 1, 0, 0, byte(transparent), 0)
	}
	flags := byte(0)
	if interlaced {
		flags = 0x40
	}
	b = append(b, ',', byte(frame.Min.X), 0, byte(frame.Min.Y), 0, byte(frame.Dx()), 0, byte(frame.Dy()), 0, flags, byte(bits))
	var codes []byte
	var word, n uint
	put := func(code uint) {
		word |= code << n
		for n += uint(bits) + 1; n >= 8; n -= 8 {
			codes = append(codes, byte(word))
			word >>= 8
		}
	}
	for _, v := range indices {
		put(1 << bits)
		put(uint(v))
	}
	put(1<<bits + 1)
	codes = append(codes, byte(word))
	return append(append(append(b, byte(len(codes))), codes...), 0, ';')
}

// Expected pixels are Pillow 13's for the same bytes.
func TestGIFAsPillow(t *testing.T) {
	palette := []byte{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}
	for name, c := range map[string]struct {
		b    []byte
		w, h int
		want []byte
	}{
		"full":                  {gifBytes(image.Pt(2, 1), image.Rect(0, 0, 2, 1), palette, -1, false, 1, 2), 2, 1, []byte{40, 50, 60, 70, 80, 90}},
		"transparent pixel":     {gifBytes(image.Pt(2, 1), image.Rect(0, 0, 2, 1), palette, 1, false, 1, 2), 2, 1, []byte{40, 50, 60, 70, 80, 90}},
		"uncovered":             {gifBytes(image.Pt(3, 1), image.Rect(1, 0, 2, 1), palette, -1, false, 2), 3, 1, []byte{10, 20, 30, 70, 80, 90, 10, 20, 30}},
		"uncovered, index 1":    {gifBytes(image.Pt(3, 1), image.Rect(1, 0, 2, 1), palette, 1, false, 2), 3, 1, []byte{40, 50, 60, 70, 80, 90, 40, 50, 60}},
		"uncovered, index 77":   {gifBytes(image.Pt(3, 1), image.Rect(1, 0, 2, 1), palette, 77, false, 2), 3, 1, []byte{0, 0, 0, 70, 80, 90, 0, 0, 0}},
		"beyond the screen":     {gifBytes(image.Pt(2, 1), image.Rect(1, 0, 3, 1), palette, -1, false, 1, 2), 3, 1, []byte{10, 20, 30, 40, 50, 60, 70, 80, 90}},
		"no palette":            {gifBytes(image.Pt(2, 1), image.Rect(0, 0, 2, 1), nil, -1, false, 1, 2), 2, 1, []byte{1, 1, 1, 2, 2, 2}},
		"no palette, uncovered": {gifBytes(image.Pt(3, 1), image.Rect(1, 0, 2, 1), nil, 1, false, 2), 3, 1, []byte{1, 1, 1, 2, 2, 2, 1, 1, 1}},
		"interlaced": {gifBytes(image.Pt(1, 5), image.Rect(0, 0, 1, 5), palette, -1, true, 0, 1, 2, 3, 0), 1, 5,
			[]byte{10, 20, 30, 100, 110, 120, 70, 80, 90, 10, 20, 30, 40, 50, 60}},
	} {
		p, err := Decode(c.b, Options{})
		require.NoError(t, err, name)
		require.Equal(t, &RGB{c.w, c.h, c.want}, p, name)
		_, err = Decode(c.b[:len(c.b)-1], Options{})
		require.NoError(t, err, "%s without its last byte", name)
		_, err = Decode(c.b[:len(c.b)-4], Options{})
		require.ErrorIs(t, err, ErrDamaged, "%s, cut off", name)
	}
}

func TestGIFRowsOfAllHeights(t *testing.T) {
	for h := 1; h < 40; h++ {
		seen := make([]bool, h)
		for i := range h {
			y := gifRow(i, h, true)
			require.False(t, seen[y], "%d of %d", i, h)
			seen[y] = true
		}
	}
}

func TestPalettePNGBeyondPalette(t *testing.T) {
	b := pngChunks(ihdr(4, 1, 8, 3), chunk("PLTE", []byte{10, 20, 30, 40, 50, 60}), chunk("tRNS", []byte{0}), chunk("IDAT", deflated([]byte{0, 0, 1, 2, 200})), chunk("IEND", nil))
	p, err := Decode(b, Options{})
	require.NoError(t, err)
	require.Equal(t, []byte{10, 20, 30, 40, 50, 60, 0, 0, 0, 0, 0, 0}, p.Pix)
}

func TestAlphaIsDropped(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	m.SetNRGBA(0, 0, color.NRGBA{145, 176, 181, 128})
	m.SetNRGBA(1, 0, color.NRGBA{1, 2, 3, 0})
	want := []byte{145, 176, 181, 1, 2, 3}
	p, err := Decode(pngFile(t, m), Options{})
	require.NoError(t, err)
	require.Equal(t, want, p.Pix)

	deep := image.NewNRGBA64(image.Rect(0, 0, 1, 1))
	deep.SetNRGBA64(0, 0, color.NRGBA64{0x91ff, 0xb001, 0xb580, 0x8000})
	p, err = Decode(pngFile(t, deep), Options{})
	require.NoError(t, err)
	require.Equal(t, want[:3], p.Pix)
}

func TestGray16(t *testing.T) {
	m := image.NewGray16(image.Rect(0, 0, 4, 1))
	for x, v := range []uint16{0, 255, 0x80ff, 0xffff} {
		m.SetGray16(x, 0, color.Gray16{v})
	}
	var tiffed bytes.Buffer
	require.NoError(t, tiff.Encode(&tiffed, m, nil))
	// A transparent level makes the standard library return another type.
	level := pngChunks(ihdr(4, 1, 16, 0), chunk("tRNS", []byte{0, 0}), chunk("IDAT", deflated([]byte{0, 0, 0, 0, 255, 0x80, 0xff, 0xff, 0xff})), chunk("IEND", nil))
	for name, b := range map[string][]byte{"PNG": pngFile(t, m), "TIFF": tiffed.Bytes(), "PNG with a transparent level": level} {
		var said []string
		n := Notices{Func: func(s string) { said = append(said, s) }}
		for range 2 {
			p, err := Decode(b, Options{Notices: &n})
			require.NoError(t, err, name)
			require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0x80, 0x80, 0x80, 255, 255, 255}, p.Pix, name)
		}
		require.Len(t, said, 1, name)
		require.Equal(t, said, n.List(), name)
		require.Contains(t, said[0], "16-bit grey")

		n = Notices{}
		p, err := Decode(b, Options{PillowGray16: true, Notices: &n})
		require.NoError(t, err, name)
		require.Equal(t, []byte{0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255}, p.Pix, name)
		require.Empty(t, n.List(), name)
	}
}

func TestBMPAndTIFF(t *testing.T) {
	want := fillImage("bmp", 13, 9)
	var b, c bytes.Buffer
	require.NoError(t, bmp.Encode(&b, asImage(want)))
	require.NoError(t, tiff.Encode(&c, asImage(want), &tiff.Options{Compression: tiff.Deflate}))
	for _, file := range [][]byte{b.Bytes(), c.Bytes()} {
		p, err := Decode(file, Options{})
		require.NoError(t, err)
		require.Equal(t, want, p)
		_, err = Decode(file[:len(file)-20], Options{})
		require.ErrorIs(t, err, ErrDamaged)
	}
}

func TestStraight(t *testing.T) {
	require.Equal(t, byte(200), straight(200, 255))
	require.Equal(t, byte(9), straight(9, 0))
	require.Equal(t, byte(199), straight(100, 128))
	require.Equal(t, byte(255), straight(200, 100))
}

func TestHeaderSizes(t *testing.T) {
	p := fillImage("header", 13, 9)
	var b, c bytes.Buffer
	require.NoError(t, bmp.Encode(&b, asImage(p)))
	require.NoError(t, tiff.Encode(&c, asImage(p), nil))
	for f, file := range map[Format][]byte{
		JPEG: encodeJPEG(t, p), PNG: pngFile(t, asImage(p)), BMP: b.Bytes(), TIFF: c.Bytes(),
		GIF:  gifBytes(image.Pt(13, 9), image.Rect(0, 0, 1, 1), nil, -1, false, 0),
		WebP: []byte("RIFF\x20\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\x0c\x00\x02\x00"),
	} {
		info, err := Header(file, Options{})
		require.NoError(t, err, f)
		require.Equal(t, Info{f, 13, 9}, info)
	}
}

// An animation whose first frame covers two pixels of the canvas; the rest is black, as Pillow 13 has it for these bytes.
func TestWebPFrameOnCanvas(t *testing.T) {
	stream := "\x2f\x01\x00\x00\x00\x0f\xf0\x1e\xe4\x2b\xc0\xdf\x83\x67\xfe\x23\x0d\x15\x88\xe8\x7f\x00"
	part := func(kind, body string) string {
		return kind + string([]byte{byte(len(body)), 0, 0, 0}) + body + strings.Repeat("\x00", len(body)%2)
	}
	chunks := part("VP8X", "\x02\x00\x00\x00\x04\x00\x00\x03\x00\x00") + part("ANIM", "\x33\x22\x11\xff\x00\x00") +
		part("ANMF", "\x01\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x64\x00\x00\x00"+part("VP8L", stream))
	file := []byte("RIFF" + string([]byte{byte(len(chunks) + 4), 0, 0, 0}) + "WEBP" + chunks)
	p, err := Decode(file, Options{})
	require.NoError(t, err)
	want := newRGB(5, 4)
	copy(want.Pix[(2*5+2)*3:], []byte{10, 200, 30, 250, 5, 90})
	require.Equal(t, want, p)

	file[bytes.Index(file, []byte("ANMF"))+8] = 2 // the frame now leaves the canvas
	_, err = Decode(file, Options{})
	require.ErrorIs(t, err, ErrDamaged)
}
