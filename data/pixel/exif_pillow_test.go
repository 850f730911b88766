//go:build cgo

package pixel

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/exiftest"
)

// TestEXIFAsPillow compares pictures with an orientation, and files whose EXIF is odd, with Pillow's exif_transpose
// (testdata/pixel/make_exif.py).
func TestEXIFAsPillow(t *testing.T) {
	o := Options{ApplyEXIF: true}
	d, err := NewDecoder(o)
	require.NoError(t, err)
	defer d.Close()
	small := make([]byte, 24*16*3)
	for _, f := range exiftest.Photos(t) {
		p, err := Decode(f.Data, o)
		require.NoError(t, err, f.Name)
		assert.Equal(t, f.WH, [2]int{p.W, p.H}, f.Name)
		assert.Equal(t, f.CRC, crc(p.Pix), f.Name)
		require.NoError(t, d.Resized(f.Data, 24, 16, Bilinear, small), f.Name)
		assert.Equal(t, f.Squash, crc(small), f.Name)
		kept, err := d.Decode(f.Data)
		require.NoError(t, err, f.Name)
		assert.Equal(t, f.CRC, crc(kept.Pix), f.Name)
		info, err := Header(f.Data, o)
		require.NoError(t, err, f.Name)
		w, h := info.Shown(f.Data, o)
		assert.True(t, info.Format == TIFF || f.WH == [2]int{w, h}, f.Name)
	}
}
