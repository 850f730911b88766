//go:build cgo

package pixel

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

type variant struct {
	Name string
	CRC  *uint32 // of Pillow's RGB; nil: refused
	Data string  // deflated, base64
}

func (v variant) file(t testing.TB) []byte {
	packed, err := base64.StdEncoding.DecodeString(v.Data)
	require.NoError(t, err)
	z, err := zlib.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	file, err := io.ReadAll(z)
	require.NoError(t, err)
	return file
}

func variants(t testing.TB) []variant {
	b, err := os.ReadFile(testroot.Testdata("pixel", "variants.json"))
	require.NoError(t, err)
	var golden struct{ Files []variant }
	require.NoError(t, json.Unmarshal(b, &golden))
	require.Greater(t, len(golden.Files), 500)
	return golden.Files
}

// TestVariants compares small files of many kinds with Pillow (testdata/pixel/make_variants.py).
func TestVariants(t *testing.T) {
	for _, f := range variants(t) {
		file := f.file(t)
		p, err := Decode(file, Options{PillowGray16: true})
		if f.CRC == nil {
			if err == nil { // Pillow does not find its way into BigTIFF in big-endian order
				require.True(t, strings.HasPrefix(string(file), "MM\x00+"), "%s: read here, refused by Pillow", f.Name)
			}
			continue
		}
		require.NoError(t, err, f.Name)
		require.Equal(t, *f.CRC, crc32.ChecksumIEEE(p.Pix), f.Name)
		info, err := Header(file, Options{})
		require.NoError(t, err, f.Name)
		require.Equal(t, [2]int{p.W, p.H}, [2]int{info.W, info.H}, f.Name)
		// Cut short, none may panic or take a size from nowhere.
		for _, n := range []int{len(file) / 4, len(file) / 2, len(file) - 3} {
			if n > 0 {
				_, _ = Decode(file[:n], Options{})
			}
		}
	}
}
