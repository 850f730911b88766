// Package upright gives tests the picture that a viewer shows of a photo with an orientation.
package upright

import (
	"bytes"
	"hash/crc32"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/exiftest"
)

// PNG is the picture that a viewer shows, as a PNG without an orientation; its pixels are Pillow's to the bit.
func PNG(t testing.TB, p exiftest.Photo) []byte {
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
