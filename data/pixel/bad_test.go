//go:build cgo

package pixel

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func pngChunks(chunks ...[]byte) []byte {
	return bytes.Join(append([][]byte{[]byte(pngSignature)}, chunks...), nil)
}

func chunk(kind string, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(append(b, kind...), body...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

func ihdr(w, h uint32, depth, color byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, w)
	b = binary.BigEndian.AppendUint32(b, h)
	return chunk("IHDR", append(b, depth, color, 0, 0, 0))
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(b)
	w.Close()
	return out.Bytes()
}

// forgedJPEG announces a size that its data cannot have.
func forgedJPEG(t testing.TB, w, h uint16) []byte {
	b := bytes.Clone(goldenJPEGs(t)[0])
	i := bytes.Index(b, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(b[i+5:], h)
	binary.BigEndian.PutUint16(b[i+7:], w)
	return b
}

func TestErrorsHaveTheirKind(t *testing.T) {
	jpeg := goldenJPEGs(t)[0]
	sof := bytes.Index(jpeg, []byte{0xff, 0xc0})
	change := func(at int, v byte) []byte {
		b := bytes.Clone(jpeg)
		b[at] = v
		return b
	}
	gif := []byte("GIF89a\x02\x00\x01\x00\x80\x00\x00\x01\x02\x03\x04\x05\x06,\x00\x00\x00\x00\x02\x00\x01\x00\x00\x02\x02\x44\x0a\x00;")
	_, err := Decode(gif, Options{})
	require.NoError(t, err, "the GIF that the cases below damage")
	for name, c := range map[string]struct {
		b    []byte
		kind error
		text string
	}{
		"empty":                  {nil, ErrDamaged, "empty"},
		"text":                   {[]byte("hello, world"), ErrUnknownFormat, "68 65 6c 6c 6f"},
		"one byte":               {[]byte{0xff}, ErrUnknownFormat, ""},
		"JPEG start only":        {jpeg[:3], ErrDamaged, "no JPEG frame header"},
		"JPEG without scan":      {jpeg[:sof+19], ErrDamaged, ""},
		"JPEG cut short":         {jpeg[:len(jpeg)-20], ErrDamaged, "truncated JPEG"},
		"JPEG without end":       {jpeg[:len(jpeg)-2], ErrDamaged, "truncated JPEG"},
		"JPEG without tables":    {withoutSegment(jpeg, 0xdb), ErrDamaged, "Quantization table"},
		"JPEG of zero height":    {forgedJPEG(t, 10, 0), ErrDamaged, "10x0"},
		"JPEG of 65000x65000":    {forgedJPEG(t, 65000, 65000), ErrTooLarge, "65000×65000"},
		"JPEG of 12 bit":         {change(sof+4, 12), ErrUnknownFormat, "12 bits"},
		"JPEG, lossless":         {change(sof+1, 0xc3), ErrUnknownFormat, "SOF3"},
		"JPEG, two components":   {change(sof+9, 2), ErrUnknownFormat, "2 components"},
		"PNG of 60000x60000":     {pngChunks(ihdr(60000, 60000, 1, 0)), ErrTooLarge, "60000×60000"},
		"PNG far too short":      {pngChunks(ihdr(8000, 8000, 8, 2), chunk("IDAT", make([]byte, 9))), ErrDamaged, "cannot hold"},
		"PNG of zero width":      {pngChunks(ihdr(0, 5, 8, 2)), ErrDamaged, ""},
		"PNG of odd depth":       {pngChunks(ihdr(5, 5, 7, 2)), ErrUnknownFormat, ""},
		"PNG without pixels":     {pngChunks(ihdr(5, 5, 8, 2), chunk("IEND", nil)), ErrDamaged, ""},
		"PNG with few pixels":    {pngChunks(ihdr(5, 5, 8, 2), chunk("IDAT", deflated(make([]byte, 30))), chunk("IEND", nil)), ErrDamaged, "PNG"},
		"PNG cut in a chunk":     {pngChunks(ihdr(1, 1, 8, 0), chunk("IDAT", deflated([]byte{0, 7})), []byte("\x00\x00\x01\x00IDATx")), ErrDamaged, "PNG"},
		"GIF header only":        {gif[:13], ErrDamaged, "GIF"},
		"GIF without pixels":     {gif[:30], ErrDamaged, "GIF"},
		"GIF of zero width":      {append(append([]byte{}, gif[:24]...), append([]byte{0, 0}, gif[26:]...)...), ErrDamaged, "0×1"},
		"GIF with wide codes":    {append(append([]byte{}, gif[:29]...), append([]byte{12}, gif[30:]...)...), ErrDamaged, "12 bits"},
		"GIF of 65535x65535":     {append([]byte("GIF89a\xff\xff\xff\xff"), gif[10:]...), ErrTooLarge, "65535×65535"},
		"BMP header only":        {[]byte("BM......"), ErrDamaged, "BMP"},
		"TIFF header only":       {[]byte("II*\x00\x08\x00\x00\x00"), ErrDamaged, "TIFF"},
		"WebP without picture":   {[]byte("RIFF\x04\x00\x00\x00WEBP"), ErrDamaged, "WebP"},
		"WebP of half a picture": {[]byte("RIFF\x20\x00\x00\x00WEBPVP8L\x10\x00\x00\x00\x2f\x00\x00\x00\x00"), ErrDamaged, "WebP"},
		"WebP of 16384x16384":    {[]byte("RIFF\x20\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\xff\xff\xff\x0f"), ErrTooLarge, "16384×16384"},
	} {
		p, err := Decode(c.b, Options{})
		require.ErrorIs(t, err, c.kind, name)
		require.ErrorContains(t, err, c.text, name)
		require.Nil(t, p, name)
		require.NotContains(t, err.Error(), "\n", name)
	}
}

// What Pillow repairs without a word is repaired here.
func TestMendedPNG(t *testing.T) {
	want := []byte{10, 20, 30, 40, 50, 60}
	head := ihdr(2, 1, 8, 2)
	pixels := chunk("IDAT", deflated(append([]byte{0}, want...)))
	end := chunk("IEND", nil)
	wrong := bytes.Clone(pixels)
	wrong[len(wrong)-1] ^= 1
	text := chunk("tEXt", []byte("a\x00b"))
	text[len(text)-1] ^= 1
	for name, b := range map[string][]byte{
		"whole":                          pngChunks(head, pixels, end),
		"garbage behind":                 pngChunks(head, pixels, end, []byte("garbage")),
		"no end":                         pngChunks(head, pixels),
		"end without checksum":           pngChunks(head, pixels, end[:9]),
		"pixels without checksum":        pngChunks(head, pixels[:len(pixels)-3]),
		"wrong checksum over the pixels": pngChunks(head, wrong, end),
		"wrong checksum after them":      pngChunks(head, pixels, text, end),
	} {
		p, err := Decode(b, Options{})
		require.NoError(t, err, name)
		require.Equal(t, &RGB{2, 1, want}, p, name)
	}
	_, err := Decode(pngChunks(head, text, pixels, end), Options{})
	require.ErrorIs(t, err, ErrDamaged, "a wrong checksum before the pixels")
}

// residentKB is the memory of this process.
func residentKB(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize() / 1024
}

func TestBadFilesLeakNothing(t *testing.T) {
	jpeg := bigJPEG(t)
	cut := jpeg[:len(jpeg)/2]
	broken := bytes.Clone(jpeg)
	for i := 700; i < len(broken); i += 97 {
		broken[i] = byte(i)
	}
	files := [][]byte{cut, broken, jpeg[:300], forgedJPEG(t, 65000, 65000), forgedJPEG(t, 1, 65535), pngFile(t, asImage(fillImage("leak", 300, 200)))[:5000]}
	var d Decoder
	defer d.Close()
	pixels := make([]byte, 64*64*3)
	round := func(n int) {
		for i := range n {
			b := files[i%len(files)]
			_ = d.Resized(b, 64, 64, Bilinear, pixels)
			_, _ = Decode(b, Options{})
		}
		debug.FreeOSMemory() // what the Go heap holds back is no leak
	}
	round(300)
	// A leak grows in each of the windows, the runtime's own housekeeping only in some.
	grown := math.MaxInt
	for range 3 {
		before := residentKB(t)
		round(1000)
		grown = min(grown, residentKB(t)-before)
	}
	require.Less(t, grown, 1024, "kB after 1000 bad files, the least of three times")
}

// Bombs are refused from their headers: memory stays where it was.
func TestBombsCostNothing(t *testing.T) {
	bombs := [][]byte{
		forgedJPEG(t, 65535, 65535), pngChunks(ihdr(60000, 60000, 1, 0)), pngChunks(ihdr(1<<30, 1<<30, 16, 6)),
		[]byte("RIFF\x20\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\xff\xff\xff\x0f"),
		append([]byte("GIF89a\xff\xff\xff\xff"), gifBytes(image.Pt(1, 1), image.Rect(0, 0, 1, 1), nil, -1, false, 0)[10:]...),
		// A whole file: 400 million pixels of one bit in 50 kB.
		pngChunks(ihdr(20000, 20000, 1, 0), chunk("IDAT", deflated(make([]byte, 20000*2501))), chunk("IEND", nil)),
	}
	runtime.GC() // of what the last one was made from
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	resident := residentKB(t)
	runtime.ReadMemStats(&before)
	for i := range 100 {
		_, err := Decode(bombs[i%len(bombs)], Options{})
		require.ErrorIs(t, err, ErrTooLarge)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	require.Less(t, residentKB(t), resident+16<<10)
}

// bigJPEG is a photo-sized file that needs no data root.
func bigJPEG(t testing.TB) []byte { return encodeJPEG(t, fillImage("big", 400, 300)) }

func TestGuardTurnsPanicsIntoErrors(t *testing.T) {
	f := func() (err error) {
		defer guard(PNG, &err)
		var m *image.Gray
		_ = m.Pix[3]
		return nil
	}
	require.ErrorIs(t, f(), ErrDamaged)
	require.ErrorContains(t, f(), "PNG decoder failed")
}
