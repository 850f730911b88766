package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
)

// rowColour is a colour that tells rows below 256 apart after lossy coding.
func rowColour(row int) [3]int { return [3]int{row % 16 * 16, row / 16 * 16, 128} }

func even(row int) image.Image {
	c := rowColour(row)
	im := image.NewRGBA(image.Rect(0, 0, 40, 30))
	for i := 0; i < len(im.Pix); i += 4 {
		im.Pix[i], im.Pix[i+1], im.Pix[i+2], im.Pix[i+3] = byte(c[0]), byte(c[1]), byte(c[2]), 255
	}
	return im
}

func encoded(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, encode(&b))
	return b.Bytes()
}

func asJPEG(t *testing.T, row int) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, even(row), &jpeg.Options{Quality: 95}) })
}

// pngBomb is a PNG file whose header announces that many pixels.
func pngBomb(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, body []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
		body = append([]byte(kind), body...)
		b = binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE(body))
	}
	head := binary.BigEndian.AppendUint32(nil, w)
	chunk("IHDR", append(binary.BigEndian.AppendUint32(head, h), 8, 2, 0, 0, 0))
	chunk("IDAT", []byte{0x78, 0x9c, 0x63, 0, 0})
	chunk("IEND", nil)
	return b
}

// TestOddImages mixes odd files of every kind into a set: each broken one is named once, and no image moves to another row.
func TestOddImages(t *testing.T) {
	outside := folder(t, map[string]string{"secret.jpg": string(asJPEG(t, 0))})
	write := func(b []byte) func(string, int) error {
		return func(path string, row int) error { return os.WriteFile(path, b, 0o644) }
	}
	photo := func(change func([]byte) []byte) func(string, int) error {
		return func(path string, row int) error { return os.WriteFile(path, change(asJPEG(t, row)), 0o644) }
	}
	odd := []struct {
		name string
		bad  bool
		make func(path string, row int) error
	}{
		{"zero bytes", true, write(nil)},
		{"one byte", true, write([]byte{0xff})},
		{"start and end of a JPEG", true, write([]byte("\xff\xd8\xff\xd9"))},
		{"cut in the header", true, photo(func(b []byte) []byte { return b[:100] })},
		{"cut in the scan", true, photo(func(b []byte) []byte { return b[:len(b)-10] })},
		{"random bytes", true, write(bytes.Repeat([]byte("\x17\xa5\x03\xfe\x91"), 999))},
		{"text", true, write([]byte("this is not an image\n"))},
		{"a web page", true, write([]byte("<!DOCTYPE html><html><title>404</title></html>"))},
		{"PNG with a JPEG's name", false, func(path string, row int) error {
			return os.WriteFile(path, encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, even(row)) }), 0o644)
		}},
		{"GIF with a JPEG's name", false, func(path string, row int) error {
			c := rowColour(row)
			im := image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.RGBA{byte(c[0]), byte(c[1]), byte(c[2]), 255}})
			return os.WriteFile(path, encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, im, nil) }), 0o644)
		}},
		{"cut PNG", true, func(path string, row int) error {
			b := encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, even(row)) })
			return os.WriteFile(path, b[:len(b)-30], 0o644)
		}},
		{"PNG bomb", true, write(pngBomb(60000, 60000))},
		{"PNG of no width", true, write(pngBomb(0, 10))},
		{"PNG of 2^31 rows", true, write(pngBomb(1, 1<<31))},
		{"JPEG of forged size", true, photo(func(b []byte) []byte {
			at := bytes.Index(b, []byte{0xff, 0xc0})
			copy(b[at+5:], []byte{0xfd, 0xe8, 0xfd, 0xe8})
			return b
		})},
		{"bytes after the end", false, photo(func(b []byte) []byte { return append(b, "garbage"...) })},
		{"folder", true, func(path string, row int) error { return os.Mkdir(path, 0o755) }},
		{"pipe", true, func(path string, row int) error { return syscall.Mkfifo(path, 0o644) }},
		{"no permission", os.Geteuid() != 0, func(path string, row int) error { return os.WriteFile(path, asJPEG(t, row), 0) }},
		{"vanished", true, nil},
		{"link out of the folder", true, func(path string, row int) error { return os.Symlink(filepath.Join(outside, "secret.jpg"), path) }},
		{"link within the folder", false, func(path string, row int) error {
			if err := os.WriteFile(path+".target", asJPEG(t, row), 0o644); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(path)+".target", path)
		}},
		{"too many bytes", true, func(path string, row int) error {
			if err := os.WriteFile(path, asJPEG(t, row), 0o644); err != nil {
				return err
			}
			return os.Truncate(path, MaxImageBytes+1)
		}},
		{"RIFF without WebP", true, write([]byte("RIFF\x10\x00\x00\x00WEBPVP8 \x04\x00\x00\x00abcd"))},
		{"BMP header alone", true, write([]byte("BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"))},
		{"TIFF loop", true, write([]byte("II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00"))},
		{"GIF header alone", true, write([]byte("GIF89a\x05\x00\x05\x00\x00\x00\x00"))},
	}
	const n = 250
	var labels strings.Builder
	labels.WriteString("filename,x\n")
	var images []string
	for row := range n {
		images = append(images, fmt.Sprintf("%03d.jpg", row))
		fmt.Fprintf(&labels, "%03d.jpg,1\n", row)
	}
	dir := folder(t, map[string]string{"labels.csv": labels.String()}, images...)
	for row := range n {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", images[row]), asJPEG(t, row), 0o644))
	}
	d, err := OpenCSV(dir, CSVOptions{})
	require.NoError(t, err)
	defer d.Close()
	bad := map[int]string{} // the files go bad after the set was opened: opening decodes nothing
	for i, o := range odd {
		row := 3 + 9*i
		path := filepath.Join(dir, "images", images[row])
		require.NoError(t, os.Remove(path))
		if o.make != nil {
			require.NoError(t, o.make(path, row), o.name)
		}
		if o.bad {
			bad[row] = o.name
		}
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	var log bytes.Buffer
	l := newLoader(t, d, LoaderOptions{Width: 8, Height: 8, Workers: 3, CacheBytes: 200 * 192, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for epoch := range 2 {
		given, skipped := 0, 0
		for b, err := range l.Batches(context.Background(), Plan{Order: Shuffled(rows, 1, epoch), BatchSize: 16}) {
			require.NoError(t, err)
			given, skipped = given+b.Len(), skipped+len(b.Skipped)
			for i, row := range b.Rows {
				want, px := rowColour(row), b.Images[i]
				for k, v := range px {
					require.InDelta(t, want[k%3], int(v), 6, "epoch %d: the image of row %d is another's", epoch, row)
				}
			}
			for _, row := range b.Skipped {
				require.Contains(t, bad, row, "%s was left out", images[row])
			}
		}
		require.Equal(t, n-len(bad), given)
		require.Equal(t, len(bad), skipped)
	}
	broken := l.Broken()
	require.Len(t, broken, len(bad))
	for _, b := range broken {
		t.Logf("%-26s %v", bad[b.Row], b)
		require.Equal(t, 1, strings.Count(log.String(), "file="+b.Name), "%s is not said once", b.Name)
	}
}

// TestAwkward reads every odd photo there is among good ones: what the loader gives and leaves out is what decoding each file alone says.
func TestAwkward(t *testing.T) {
	root := testroot.Shared(t, "data", "awkward")
	var names []string
	require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			names = append(names, name)
		}
		return err
	}))
	require.Greater(t, len(names), 300)
	files, err := OpenFiles(root, names)
	require.NoError(t, err)
	require.Empty(t, files.Missing())
	d := &Dataset{Name: "awkward", Classes: []string{"x"}, Images: names, Split: make([]Split, len(names)), Source: files}
	defer d.Close()
	const side = 16
	l := newLoader(t, d, LoaderOptions{Width: side, Height: side, Workers: 2})
	rows := make([]int, len(names))
	for i := range rows {
		rows[i] = i
	}
	good, skipped := 0, 0
	for b, err := range l.Batches(context.Background(), Plan{Order: Shuffled(rows, 3, 0), BatchSize: 32}) {
		require.NoError(t, err)
		for i, row := range b.Rows {
			bytes, err := files.ReadFile(row, nil)
			require.NoError(t, err)
			p, err := pixel.Decode(bytes, pixel.Options{})
			require.NoError(t, err, names[row])
			p, err = pixel.Resize(p, side, side, pixel.Bilinear)
			require.NoError(t, err)
			require.Equal(t, p.Pix, b.Images[i], names[row])
			good++
		}
		for _, row := range b.Skipped {
			bytes, err := files.ReadFile(row, nil)
			require.NoError(t, err)
			_, err = pixel.Decode(bytes, pixel.Options{})
			require.Error(t, err, names[row])
			skipped++
		}
	}
	require.Equal(t, len(names), good+skipped)
	require.Len(t, l.Broken(), skipped)
	require.Greater(t, good, 200)
	require.Greater(t, skipped, 10)
}

// BenchmarkLoader reads 64 scene photos at 448 × 448: the first epoch decodes, later ones come from the cache.
func BenchmarkLoader(b *testing.B) {
	d, err := OpenCSV(testroot.Shared(b, "data", "miml"), CSVOptions{Seed: 1200})
	require.NoError(b, err)
	defer d.Close()
	walk := func(l *Loader) {
		for _, err := range l.Batches(context.Background(), Plan{Order: d.Rows(Train)[:64], BatchSize: 16}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, cacheBytes := range map[string]int64{"first": 0, "cached": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			l := newLoader(b, d, LoaderOptions{Width: 448, Height: 448, CacheBytes: cacheBytes})
			walk(l)
			b.ReportAllocs()
			for b.Loop() {
				walk(l)
			}
			b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}
