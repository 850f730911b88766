//go:build cgo

package pixel

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"sort"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

func TestJPEGGolden(t *testing.T) {
	var g resizeGolden
	golden(t, "resize.json", &g)
	require.NotEmpty(t, g.JPEG.Files)
	for _, f := range g.JPEG.Files {
		p, err := Decode(f.JPEG, Options{})
		require.NoError(t, err, f.Name)
		require.Equal(t, f.WH, [2]int{p.W, p.H}, f.Name)
		require.Equal(t, toBytes(f.RGB), p.Pix, f.Name)
	}
}

type picture struct {
	WH             [2]int
	CRC32          uint32
	First          []byteNumber
	ImageNet, CLIP *struct {
		FirstRowFirst4 [3][4]float32 `json:"first_row_first4"`
		ChannelMean    [3]float64    `json:"channel_mean"`
	}
}

// The 30 files whose way through a training script was recorded.
func TestPreprocessGolden(t *testing.T) {
	var g struct {
		Files []struct {
			File, Format  string
			Raises        string
			RGB           picture
			Squash448     picture `json:"squash448_bilinear"`
			Squash224     uint32  `json:"squash224_bilinear_crc32"`
			CLIP224       picture `json:"clip224_rgb_first"`
			Transposed    picture `json:"rgb_after_exif_transpose"`
			Transposed448 uint32  `json:"squash448_after_exif_transpose_crc32"`
		}
	}
	golden(t, "preprocess.json", &g)
	require.Len(t, g.Files, 30)
	o := Options{PillowGray16: true}
	d, err := NewDecoder(o)
	require.NoError(t, err)
	defer d.Close()
	for _, f := range g.Files {
		b := readFile(t, testroot.Shared(t, "data", f.File))
		info, err := Header(b, o)
		require.NoError(t, err, f.File)
		require.Equal(t, Format(f.Format), info.Format, f.File)
		p, err := Decode(b, o)
		if f.Raises != "" {
			require.ErrorIs(t, err, ErrDamaged, f.File)
			continue
		}
		require.NoError(t, err, f.File)
		require.Equal(t, f.RGB.WH, [2]int{p.W, p.H}, f.File)
		require.Equal(t, toBytes(f.RGB.First), p.Pix[:min(9, len(p.Pix))], f.File)
		require.Equal(t, f.RGB.CRC32, crc(p.Pix), f.File)

		small := make([]byte, 224*224*3)
		require.NoError(t, d.Resized(b, 224, 224, Bilinear, small), f.File)
		require.Equal(t, f.Squash224, crc(small), f.File)

		pixels, values := make([]byte, 448*448*3), make([]float32, 448*448*3)
		require.NoError(t, d.Resized(b, 448, 448, Bilinear, pixels), f.File)
		require.Equal(t, f.Squash448.CRC32, crc(pixels), f.File)
		require.NoError(t, d.Normalized(b, 448, 448, Bilinear, ImageNetMean, ImageNetStd, false, values), f.File)
		checkPlanes(t, f.File, values, f.Squash448.ImageNet.FirstRowFirst4, f.Squash448.ImageNet.ChannelMean)
		require.True(t, sameBits(normalized(&RGB{448, 448, pixels}, ImageNetMean, ImageNetStd, false), values), f.File)

		geometry := ShortSide(p.W, p.H, 224, Bicubic)
		require.NoError(t, d.Uint8(b, geometry, small), f.File)
		require.Equal(t, f.CLIP224.CRC32, crc(small), f.File)
		require.NoError(t, d.Float32(b, geometry, CLIPMean, CLIPStd, values[:len(small)]), f.File)
		checkPlanes(t, f.File, values[:len(small)], f.CLIP224.CLIP.FirstRowFirst4, f.CLIP224.CLIP.ChannelMean)

		if f.Transposed.CRC32 != 0 {
			turn, err := NewDecoder(Options{ApplyEXIF: true})
			require.NoError(t, err)
			p, err := Decode(b, Options{ApplyEXIF: true})
			require.NoError(t, err)
			require.Equal(t, f.Transposed.WH, [2]int{p.W, p.H}, f.File)
			require.Equal(t, f.Transposed.CRC32, crc(p.Pix), f.File)
			require.NoError(t, turn.Resized(b, 448, 448, Bilinear, pixels), f.File)
			require.Equal(t, f.Transposed448, crc(pixels), f.File)
			require.NoError(t, turn.Close())
		}
	}
}

func checkPlanes(t *testing.T, file string, values []float32, first [3][4]float32, means [3]float64) {
	t.Helper()
	plane := len(values) / 3
	for c := range 3 {
		for x, want := range first[c] {
			require.InDelta(t, want, values[c*plane+x], 1e-6, "%s channel %d column %d", file, c, x)
		}
		sum := 0.0
		for _, v := range values[c*plane : (c+1)*plane] {
			sum += float64(v)
		}
		require.InDelta(t, means[c], sum/float64(plane), 1e-5, "%s channel %d", file, c)
	}
}

// readable names files that Pillow refuses because of chunks beside the pixels, and that are decoded here.
var readable = []string{
	"apng/chunk_no_fctl.png",          // the order of the animation's chunks
	"bombs/png_decompression_dos.png", // a text that unpacks to megabytes: texts are not unpacked here
}

// All odd files: what Pillow reads is read, to the same bytes, and what it refuses is refused.
func TestAwkwardAsPillow(t *testing.T) {
	var g struct {
		Files map[string]struct {
			Error                      string
			Mode                       string
			WH                         [2]int
			RGB, Squash448, Bicubic224 uint32
			Orientation                int
			Transposed                 uint32
		}
	}
	golden(t, "awkward.json", &g)
	require.Len(t, g.Files, 307)
	o := Options{PillowGray16: true}
	d, err := NewDecoder(o)
	require.NoError(t, err)
	defer d.Close()
	pixels := make([]byte, 448*448*3)
	for _, name := range slices.Sorted(maps.Keys(g.Files)) {
		want := g.Files[name]
		b := readFile(t, testroot.Shared(t, "data", "awkward", name))
		p, err := Decode(b, o)
		short := d.Resized(b, 448, 448, Bilinear, pixels)
		require.Equal(t, err == nil, short == nil, name)
		if want.Error != "" {
			if slices.Contains(readable, name) {
				require.NoError(t, err, name)
				continue
			}
			require.Error(t, err, "%s: Pillow raises %s", name, want.Error)
			require.Nil(t, p)
			if want.Error == "DecompressionBombError" {
				require.NotErrorIs(t, err, ErrDamaged, "%s", name)
			}
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, want.WH, [2]int{p.W, p.H}, name)
		require.Equal(t, want.RGB, crc(p.Pix), "%s, mode %s", name, want.Mode)
		require.Equal(t, want.Squash448, crc(pixels), name)
		q, err := Resize(p, 224, 224, Bicubic)
		require.NoError(t, err)
		require.Equal(t, want.Bicubic224, crc(q.Pix), name)

		require.Equal(t, max(want.Orientation, 1), Orientation(b), name)
		if want.Transposed != 0 {
			p, err := Decode(b, Options{ApplyEXIF: true})
			require.NoError(t, err)
			require.Equal(t, want.Transposed, crc(p.Pix), name)
		}
	}
}

// Every 16th photo of the real sets.
func TestPhotosAsPillow(t *testing.T) {
	var g struct {
		Every int
		Sets  map[string]struct {
			Count  int
			Digest uint32
		}
	}
	golden(t, "photos.json", &g)
	require.NotEmpty(t, g.Sets)
	d, err := NewDecoder(Options{})
	require.NoError(t, err)
	defer d.Close()
	pixels := make([]byte, 448*448*3)
	for folder, want := range g.Sets {
		all := photos(t, folder)
		sort.Strings(all)
		count, digest := 0, uint32(0)
		for i := 0; i < len(all); i += g.Every {
			b := readFile(t, all[i])
			p, err := Decode(b, Options{})
			require.NoError(t, err, all[i])
			require.NoError(t, d.Resized(b, 448, 448, Bilinear, pixels), all[i])
			q, err := Resize(p, 224, 224, Bicubic)
			require.NoError(t, err)
			var row bytes.Buffer
			require.NoError(t, binary.Write(&row, binary.LittleEndian, [5]uint32{uint32(p.W), uint32(p.H), crc(p.Pix), crc(pixels), crc(q.Pix)}))
			digest = crc32.Update(digest, crc32.IEEETable, row.Bytes())
			count++
		}
		require.Equal(t, want.Count, count, folder)
		require.Equal(t, want.Digest, digest, folder)
	}
}
