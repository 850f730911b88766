//go:build cgo

package pixel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/internal/testroot"
)

// golden reads a JSON file of testdata/pixel.
func golden(t testing.TB, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(testroot.Testdata("pixel", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, to))
}

// fillImage is the picture of the goldens' deterministic fill rule with that name.
func fillImage(name string, w, h int) *RGB {
	p := newRGB(w, h)
	copy(p.Pix, goldenfill.Bytes(name, len(p.Pix)))
	return p
}

func crc(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// floatCRC is the checksum of little-endian float32.
func floatCRC(t testing.TB, x []float32) uint32 {
	b, err := binary.Append(nil, binary.LittleEndian, x)
	require.NoError(t, err)
	return crc(b)
}

// atEveryLevel runs f with each set of kernels that this processor has.
func atEveryLevel(t *testing.T, f func(t *testing.T)) {
	l, err := load()
	require.NoError(t, err)
	best := l.setCPU(len(cpuNames) - 1)
	defer l.setCPU(best)
	for level := range best + 1 {
		require.Equal(t, level, l.setCPU(level))
		t.Run(l.cpu(), f)
	}
}

// photos lists the pictures below a folder of the data root, in the order of their paths.
func photos(t testing.TB, folder string) []string {
	var all []string
	require.NoError(t, filepath.WalkDir(testroot.Shared(t, "data", folder), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasSuffix(path, ".jpg") || strings.HasSuffix(path, ".png")) {
			all = append(all, path)
		}
		return err
	}))
	return all // WalkDir goes in lexical order folder by folder
}

func readFile(t testing.TB, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// encodeJPEG writes a baseline 4:2:0 JPEG with the standard library.
func encodeJPEG(t testing.TB, p *RGB) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, asImage(p), &jpeg.Options{Quality: 90}))
	return b.Bytes()
}
