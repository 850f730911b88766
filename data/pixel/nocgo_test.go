//go:build !cgo

package pixel

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutCgo(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))))
	p, err := Decode(b.Bytes(), Options{})
	require.NoError(t, err, "formats of Go's decoders work")
	require.Equal(t, newRGB(3, 2), p)

	_, resize := Resize(p, 2, 2, Bilinear)
	_, jpeg := Decode([]byte("\xff\xd8\xff\xe0"), Options{})
	_, open := NewDecoder(Options{})
	_, cpu := CPU()
	for _, err := range []error{resize, jpeg, open, cpu, Available(), Normalize(make([]float32, 18), p.Pix, 3, 2, ImageNetMean, ImageNetStd, false)} {
		require.ErrorIs(t, err, ErrLibrary)
		require.ErrorContains(t, err, "CGO_ENABLED=0")
	}
}
