//go:build cgo

package pixel

import (
	"encoding/binary"
	"image"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDecode(f *testing.F) {
	for _, b := range goldenJPEGs(f) {
		f.Add(b)
	}
	f.Add(pngFile(f, asImage(fillImage("seed", 9, 5))))
	f.Add(gifBytes(image.Pt(3, 5), image.Rect(1, 0, 3, 4), []byte{10, 20, 30, 40, 50, 60}, 1, true, 0, 1, 0, 1, 0, 1, 0, 1))
	f.Add([]byte("RIFF\x20\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\x0c\x00\x02\x00"))
	f.Add([]byte("BM......"))
	f.Add(withEXIF(goldenJPEGs(f)[1], exifBlock(binary.LittleEndian, 3, 5)))
	for i, v := range variants(f) {
		if i%12 == 0 && len(v.Data) < 2000 {
			f.Add(v.file(f))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := Options{MaxPixels: 1 << 16, ApplyEXIF: true}
		info, headerErr := Header(b, o)
		p, err := Decode(b, o)
		if err != nil {
			require.Nil(t, p)
			return
		}
		require.NoError(t, headerErr)
		require.Equal(t, info.W*info.H, p.W*p.H)
		require.NoError(t, p.check())
		require.LessOrEqual(t, p.W*p.H, 1<<16)
		_, err = Resize(p, 7, 9, Bicubic)
		require.NoError(t, err)
	})
}

func FuzzEXIF(f *testing.F) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		block := exifBlock(order, 3, 6)
		f.Add(block)
		f.Add(withEXIF([]byte{0xff, 0xd8, 0xff, 0xd9}, block))
		f.Add(pngChunks(ihdr(1, 1, 8, 0), chunk("eXIf", block)))
		f.Add(append([]byte("RIFF\x00\x00\x00\x7fWEBPEXIF\x30\x00\x00\x00"), block...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := Orientation(b)
		require.True(t, o >= 1 && o <= 8)
	})
}
