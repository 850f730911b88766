// Package exiftest gives tests photos with an orientation and what Pillow's exif_transpose makes of them.
package exiftest

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
)

// Photo is a file of testdata/pixel/exif.json.
type Photo struct {
	Name   string
	WH     [2]int // of the turned picture
	CRC    uint32 // CRC-32 of its RGB
	Squash uint32 // of its RGB squashed to 24 × 16
	Data   []byte
}

// Photos are all files, the odd ones too.
func Photos(t testing.TB) []Photo {
	b, err := os.ReadFile(testroot.Testdata("pixel", "exif.json"))
	require.NoError(t, err)
	var golden struct {
		Files []struct {
			Photo
			Data string
		}
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	var all []Photo
	for _, f := range golden.Files {
		packed, err := base64.StdEncoding.DecodeString(f.Data)
		require.NoError(t, err)
		z, err := zlib.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		f.Photo.Data, err = io.ReadAll(z)
		require.NoError(t, err)
		all = append(all, f.Photo)
	}
	require.Greater(t, len(all), 1000)
	return all
}

// OfPhones are those as phones write them: all orientations, JPEG and PNG, with and without a thumbnail, both byte orders.
func OfPhones(t testing.TB) []Photo {
	name := regexp.MustCompile(`^(JPEG|PNG) \d+x\d+ [1-8] `)
	var some []Photo
	for _, p := range Photos(t) {
		if name.MatchString(p.Name) {
			some = append(some, p)
		}
	}
	require.GreaterOrEqual(t, len(some), 200)
	return some
}

// Upright is the picture that a viewer shows, as a PNG without an orientation; its pixels are Pillow's to the bit.
func Upright(t testing.TB, p Photo) []byte {
	rgb, err := pixel.Decode(p.Data, pixel.Options{ApplyEXIF: true})
	require.NoError(t, err)
	require.Equal(t, p.CRC, crc32.ChecksumIEEE(rgb.Pix), "%s is not as Pillow has it", p.Name)
	m := image.NewRGBA(image.Rect(0, 0, rgb.W, rgb.H))
	for i := range rgb.W * rgb.H {
		copy(m.Pix[4*i:], rgb.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}
