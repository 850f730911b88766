//go:build cgo

package pixel

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestEXIFAsPillow compares pictures with an orientation, and files whose EXIF is odd, with Pillow's exif_transpose (testdata/pixel/make_exif.py).
func TestEXIFAsPillow(t *testing.T) {
	b, err := os.ReadFile(testroot.Testdata("pixel", "exif.json"))
	require.NoError(t, err)
	var golden struct {
		Files []struct {
			variant
			WH     [2]int
			Squash uint32
		}
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	require.Greater(t, len(golden.Files), 500)
	o := Options{ApplyEXIF: true}
	d, err := NewDecoder(o)
	require.NoError(t, err)
	defer d.Close()
	small := make([]byte, 24*16*3)
	for _, f := range golden.Files {
		file := f.file(t)
		p, err := Decode(file, o)
		assert.NoError(t, err, f.Name)
		assert.Equal(t, f.WH, [2]int{p.W, p.H}, f.Name)
		assert.Equal(t, *f.CRC, crc(p.Pix), f.Name)
		assert.NoError(t, d.Resized(file, 24, 16, Bilinear, small), f.Name)
		assert.Equal(t, f.Squash, crc(small), f.Name)
		kept, err := d.Decode(file)
		assert.NoError(t, err, f.Name)
		assert.Equal(t, *f.CRC, crc(kept.Pix), f.Name)
	}
}
