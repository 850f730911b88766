// Package exiftest gives tests photos with an orientation and what Pillow's exif_transpose makes of them.
package exiftest

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

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

// OfPhones are those as phones write them: all orientations, JPEG and PNG, with and without a thumbnail, both byte
// orders.
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
