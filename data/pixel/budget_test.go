//go:build cgo

package pixel

import (
	"bytes"
	"compress/lzw"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// segment is a JPEG marker with its body.
func segment(marker byte, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(len(body)+2)), body...)
}

// grayJPEG is a progressive picture of one grey whose blocks of all scans but the first are empty runs, a few bytes
// each. kind is the frame's marker.
func grayJPEG(kind byte, w, h, components, scans int) []byte {
	b := append([]byte{0xff, 0xd8}, segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)...)
	frame := []byte{8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(components)}
	first := []byte{byte(components)}
	for c := range components {
		frame = append(frame, byte(c+1), 0x11, 0)
		first = append(first, byte(c+1), 0)
	}
	b = append(b, segment(kind, frame...)...)
	one := func(class, symbol byte) []byte { // a table of one code, of one bit
		return segment(0xc4, append(append([]byte{class, 1}, make([]byte, 15)...), symbol)...)
	}
	blocks := ((w + 7) / 8) * ((h + 7) / 8)
	b = append(append(b, one(0x00, 0)...), one(0x10, 14<<4)...) // no difference; a run of 2^14 and more empty blocks
	b = append(b, segment(0xda, append(first, 0, 0, 0)...)...)
	b = append(b, make([]byte, components*blocks/8+1)...)
	for s := 1; s < scans; s++ {
		band := byte(1 + (s-1)%63)
		b = append(b, segment(0xda, 1, 1, 0, band, band, 0)...)
		for n := blocks; n > 0; n -= 1 << 14 {
			b = append(b, 0, 0) // the code and 14 bits of 0, which is 1<<14 blocks
		}
	}
	return append(b, 0xff, 0xd9)
}

// uniformWebP is a lossless picture of one colour: no bit for any pixel.
func uniformWebP(w, h, size int) []byte {
	bits, n := uint64(0x2f)|uint64(w-1)<<8|uint64(h-1)<<22, 40 // signature, sizes, no alpha, version 0
	out := make([]byte, 0, 32)
	put := func(v uint64, k int) {
		bits |= v << n
		for n += k; n >= 8; n -= 8 {
			out = append(out, byte(bits))
			bits >>= 8
		}
	}
	put(0, 0)
	put(0, 3) // no transform, no colour cache, no groups
	for range 5 {
		put(1, 4) // a simple code of one symbol of one bit, 0
	}
	put(0, 16)
	out = append(out, make([]byte, max(0, size-len(out)))...)
	chunk := append(binary.LittleEndian.AppendUint32([]byte("VP8L"), uint32(len(out))), out...)
	return append(append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(chunk)+4)), "WEBP"...), chunk...)
}

type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	clear(p[:n])
	z.n -= n
	return int(n), nil
}

func deflatedZeros(t testing.TB, n int64) []byte {
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, 1)
	require.NoError(t, err)
	_, err = io.Copy(z, &zeros{n})
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func blackPNG(t testing.TB, side int64, depth, color byte, interlaced byte) []byte {
	f := pngPicture{w: int(side), h: int(side), depth: depth, color: color, interlaced: interlaced == 1}
	raw := int64(0)
	for _, p := range f.passes() {
		w, h := (side-int64(p.x)+int64(p.dx)-1)/int64(p.dx), (side-int64(p.y)+int64(p.dy)-1)/int64(p.dy)
		raw += (1 + (w*int64(f.bitsPerPixel())+7)/8) * h
	}
	head := chunk("IHDR", append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(side)), uint32(side)), depth, color, 0, 0, interlaced))
	return pngChunks(head, chunk("IDAT", deflatedZeros(t, raw)), chunk("IEND", nil))
}

func blackGIF(t testing.TB, side uint16) []byte {
	b := append([]byte("GIF89a"), binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, side), side)...)
	b = append(b, 0x80, 0, 0, 0, 0, 0, 255, 255, 255, ',', 0, 0, 0, 0)
	b = append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, side), side), 0, 8)
	var codes bytes.Buffer
	z := lzw.NewWriter(&codes, lzw.LSB, 8)
	_, err := io.Copy(z, &zeros{int64(side) * int64(side)})
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for rest := codes.Bytes(); len(rest) > 0; {
		n := min(len(rest), 255)
		b = append(append(b, byte(n)), rest[:n]...)
		rest = rest[n:]
	}
	return append(b, 0, ';')
}

// runsBMP is a picture that its first runs skip to the end.
func runsBMP(side int) []byte {
	b := append([]byte("BM"), make([]byte, 12)...)
	for _, v := range []uint32{40, uint32(side), uint32(side), 8<<16 | 1, 1, 0, 0, 0, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	binary.LittleEndian.PutUint32(b[10:], uint32(14+40+1024))
	b = append(b, make([]byte, 1024)...)
	for range side/255 + 2 {
		b = append(b, 0, 2, 0, 255)
	}
	return append(b, 255, 0, 0, 1)
}

// tiffOf is a directory before data, whose place is 4096.
func tiffOf(entries [][4]uint32, data []byte) []byte {
	b := append([]byte("II*\x00\x08\x00\x00\x00"), byte(len(entries)), byte(len(entries)>>8))
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(e[0])), uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, e[2]), e[3])
	}
	return append(append(b, make([]byte, 4096-len(b))...), data...)
}

func hostile(t testing.TB) map[string][]byte {
	words := func(n int, v uint32) (b []byte) {
		for range n {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	long, short := uint32(4), uint32(3)
	flat := []([4]uint32){{tiffWidth, long, 1, 8000}, {tiffHeight, long, 1, 8000}, {tiffBits, short, 1, 8}, {tiffCompression, short, 1, 1}, {tiffPhotometric, short, 1, 1}}
	with := func(more ...[4]uint32) [][4]uint32 {
		m := map[uint32][4]uint32{}
		for _, e := range append(append([][4]uint32{}, flat...), more...) {
			m[e[0]] = e
		}
		var all [][4]uint32
		for tag := range uint32(400) {
			if e, ok := m[tag]; ok {
				all = append(all, e)
			}
		}
		return all
	}
	small := grayJPEG(0xc2, 8000, 8000, 1, 1)
	var everyTag [][4]uint32
	for tag := uint32(tiffWidth); tag <= tiffJPEGTables; tag++ {
		everyTag = append(everyTag, [4]uint32{tag, 1, 4 << 20, 4096})
	}
	return map[string][]byte{
		"JPEG of 177 MP in 490 scans":             grayJPEG(0xc2, 13300, 13300, 1, 490),
		"JPEG of 64 MP in 490 scans":              grayJPEG(0xc2, 8000, 8000, 1, 490),
		"JPEG of 64 MP in 60 scans":               grayJPEG(0xc2, 8000, 8000, 3, 60),
		"JPEG of 64 MP in 12 scans":               grayJPEG(0xc2, 8000, 8000, 1, 12),
		"JPEG of 64 MP, three planes, 12 scans":   grayJPEG(0xc2, 8000, 8000, 3, 12),
		"JPEG of 64 MP, four planes, 12 scans":    grayJPEG(0xc2, 8000, 8000, 4, 12),
		"JPEG of 1 MP in 300 scans":               grayJPEG(0xc2, 1000, 1000, 1, 300),
		"JPEG, arithmetic, 64 MP in 60 scans":     grayJPEG(0xca, 8000, 8000, 1, 60),
		"JPEG, arithmetic, 16 MP, no data":        arithmetic(4096, 4096),
		"JPEG, scans of one component, 64 MP":     grayJPEG(0xc0, 8000, 8000, 3, 60),
		"WebP of 179 MP in 7 KB":                  uniformWebP(13377, 13377, 7000),
		"WebP of 64 MP in 7 KB":                   uniformWebP(8000, 8000, 7000),
		"WebP of 64 MP in 200 KB":                 uniformWebP(8000, 8000, 200_000),
		"WebP of 16 MP in 7 KB":                   uniformWebP(4000, 4000, 7000),
		"PNG of 64 MP, 16 bits with alpha":        blackPNG(t, 8000, 16, 6, 0),
		"PNG of 64 MP, interlaced, 16 bits":       blackPNG(t, 8000, 16, 2, 1),
		"PNG of 64 MP, interlaced, colour":        blackPNG(t, 8000, 8, 2, 1),
		"PNG of 64 MP, one bit":                   blackPNG(t, 8000, 1, 0, 0),
		"GIF of 64 MP":                            blackGIF(t, 8000),
		"BMP of 64 MP of runs":                    runsBMP(8000),
		"TIFF with a file in each tag":            tiffOf(everyTag, bytes.Repeat([]byte{1}, 4<<20)),
		"TIFF of 64 MP, deflated, 16 bits":        tiffOf(with([4]uint32{tiffBits, short, 1, 16}, [4]uint32{tiffPhotometric, short, 1, 2}, [4]uint32{tiffSamples, short, 1, 4}, [4]uint32{tiffCompression, short, 1, tiffDeflate}, [4]uint32{tiffStripOffsets, long, 1, 4096}), deflatedZeros(t, 8*8000*8000)),
		"TIFF of 1 MP in one tile of 65536":       tiffOf(with([4]uint32{tiffWidth, long, 1, 1000}, [4]uint32{tiffHeight, long, 1, 1000}, [4]uint32{tiffCompression, short, 1, tiffDeflate}, [4]uint32{tiffTileWidth, long, 1, 65536}, [4]uint32{tiffTileHeight, long, 1, 65536}, [4]uint32{tiffTileOffsets, long, 1, 4096}), deflatedZeros(t, 65536*1000)),
		"TIFF of 64 MP, a whole JPEG in each row": tiffOf(with([4]uint32{tiffCompression, short, 1, tiffJPEG}, [4]uint32{tiffRowsPerStrip, short, 1, 1}, [4]uint32{tiffStripOffsets, long, 8000, 4096}, [4]uint32{tiffStripBytes, long, 8000, 4096 + 32000}), append(append(words(8000, 4096+64000), words(8000, uint32(len(small)))...), append(small, make([]byte, 1<<20)...)...)),
		"TIFF of tiles of one pixel":              tiffOf(with([4]uint32{tiffWidth, long, 1, 1000}, [4]uint32{tiffHeight, long, 1, 1000}, [4]uint32{tiffCompression, short, 1, tiffDeflate}, [4]uint32{tiffTileWidth, long, 1, 1}, [4]uint32{tiffTileHeight, long, 1, 1}, [4]uint32{tiffTileOffsets, long, 1_000_000, 4096}), words(1_000_000, 8)),
		"TIFF of strips that name the whole file": tiffOf(with([4]uint32{tiffFillOrder, short, 1, 2}, [4]uint32{tiffCompression, short, 1, tiffPackBits}, [4]uint32{tiffRowsPerStrip, short, 1, 1}, [4]uint32{tiffStripOffsets, long, 8000, 4096}), append(words(8000, 4096+32000), bytes.Repeat([]byte{0x81, 0}, 4<<20)...)),
	}
}

// arithmetic is a file whose data ends at once: its decoder goes on with zeros.
func arithmetic(w, h int) []byte {
	b := grayJPEG(0xc9, w, h, 3, 1)
	at := bytes.Index(b, []byte{0xff, 0xda})
	copy(b[at+11:], []byte{0, 63, 0})
	return append(b[:at+14:at+14], 0x5a, 0xc3, 0x3c, 0xff, 0xd9)
}

// TestBudget decodes small files that ask for much, each in a process of its own, whose memory is measured.
func TestBudget(t *testing.T) {
	if path := os.Getenv("GOSPML_TEST_DECODE"); path != "" {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		d, err := NewDecoder(Options{ApplyEXIF: true})
		require.NoError(t, err)
		err = d.Resized(b, 224, 224, Bilinear, make([]byte, 224*224*3))
		fmt.Println("RESULT:", err)
		return
	}
	if testing.Short() {
		t.Skip("decodes 64 megapixels many times, within limits of memory and time that the race detector multiplies")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for name, b := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "file")
			require.NoError(t, os.WriteFile(path, b, 0o600))
			cmd := exec.Command(self, "-test.run=^TestBudget$")
			cmd.Env = append(os.Environ(), "GOSPML_TEST_DECODE="+path)
			start := time.Now()
			out, err := cmd.CombinedOutput()
			took := time.Since(start)
			require.NoError(t, err, "%s", out)
			peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss / 1000
			text, _, _ := strings.Cut(string(out), "\n")
			t.Logf("%d bytes, %.1f s, %d MB, %s", len(b), took.Seconds(), peak, text)
			require.Less(t, peak, int64(300), "MB")
			require.Less(t, took, 20*time.Second, "the limit is 2 s on an idle core")
		})
	}
}

// What no camera writes is refused by name before anything is decoded.
func TestBudgetRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		o    Options
		text string
	}{
		"scans":            {grayJPEG(0xc2, 500, 500, 1, 65), Options{}, "65 scans; at most 64"},
		"scans of a limit": {grayJPEG(0xc2, 500, 500, 1, 8), Options{MaxScans: 7}, "at most 7"},
		"scans by pixels":  {grayJPEG(0xc2, 4096, 8192, 1, 25), Options{}, "25 scans; at most 24"},
		"arithmetic":       {grayJPEG(0xc9, 4096, 4104, 1, 1), Options{}, "arithmetic-coded JPEG of 4096×4104 pixels; at most 16777216"},
		"hidden scans":     {hiddenScans(), Options{}, "65 scans"},
		"pixels":           {grayJPEG(0xc2, 101, 100, 1, 1), Options{MaxPixels: 10_000}, "10000"},
		"memory":           {grayJPEG(0xc2, 1000, 1000, 3, 2), Options{MaxMemory: 8_999_999}, "9 MB to decode"},
		"WebP":             {uniformWebP(8000, 8000, 7000), Options{}, "lossless WebP of 8000×8000"},
		"PNG":              {pngChunks(ihdr(8000, 8000, 16, 6), chunk("IDAT", make([]byte, 600_000))), Options{}, "512 MB"},
	} {
		_, err := Header(c.b, c.o)
		require.ErrorIs(t, err, ErrTooLarge, name)
		require.ErrorContains(t, err, c.text, name)
		_, err = Decode(c.b, c.o)
		require.ErrorIs(t, err, ErrTooLarge, name)
		d, err := NewDecoder(c.o)
		require.NoError(t, err)
		require.ErrorIs(t, d.Resized(c.b, 8, 8, Bilinear, make([]byte, 192)), ErrTooLarge, name)
		_, err = d.Decode(c.b)
		require.ErrorIs(t, err, ErrTooLarge, name)
	}
	for name, c := range map[string]struct {
		b []byte
		o Options
	}{
		"scans":  {grayJPEG(0xc2, 500, 500, 1, 64), Options{}},
		"raised": {grayJPEG(0xc2, 500, 500, 1, 80), Options{MaxScans: 80}},
		"memory": {grayJPEG(0xc2, 1000, 1000, 3, 2), Options{MaxMemory: 10_000_000}},
		"WebP":   {uniformWebP(2900, 2890, 40), Options{}},
	} {
		_, err := Decode(c.b, c.o)
		require.True(t, err == nil || !errors.Is(err, ErrTooLarge), "%s: %v", name, err)
		require.NoError(t, err, name)
	}
}

// hiddenScans hides scans from those who skip a segment by its length where libjpeg, looking for a restart, does not.
func hiddenScans() []byte {
	b := grayJPEG(0xc2, 64, 64, 1, 65)
	at := bytes.Index(b, []byte{0xff, 0xda}) + 10
	return append(append(append(append([]byte{}, b[:at]...), 0xff, 0x02, 0x7f, 0xff), b[at:]...), make([]byte, 40000)...)
}

// Photos of the largest sensors are read: of one scan, and of ten as editors write them.
func TestLargePhotos(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes 64 megapixels twice")
	}
	const w, h = 9248, 6936
	var one bytes.Buffer
	m := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio420)
	for i := range m.Y {
		m.Y[i] = byte(i * 7 >> 5)
	}
	require.NoError(t, jpeg.Encode(&one, m, nil))
	ten := grayJPEG(0xc2, w, h, 3, 10)
	for len(ten) < 3<<20 { // a photo's worth of bytes
		ten = append(append([]byte{0xff, 0xd8}, segment(0xfe, make([]byte, 60000)...)...), ten[2:]...)
	}
	for _, b := range [][]byte{one.Bytes(), ten} {
		d, err := NewDecoder(Options{})
		require.NoError(t, err)
		require.NoError(t, d.Resized(b, 448, 448, Bilinear, make([]byte, 448*448*3)))
		require.NoError(t, d.Close())
	}
}
