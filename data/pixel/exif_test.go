//go:build cgo

package pixel

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// exifBlock is a TIFF block with one other tag and the orientation.
func exifBlock(order binary.AppendByteOrder, kind uint16, orientation uint32) []byte {
	b := []byte("II*\x00")
	if order.String() == binary.BigEndian.String() {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 2)
	for _, e := range []struct {
		tag, kind uint16
		v         uint32
	}{{0x010f, 3, 5}, {tagOrientation, kind, orientation}} {
		b = order.AppendUint16(order.AppendUint16(b, e.tag), e.kind)
		b = order.AppendUint32(b, 1)
		if e.kind == 3 {
			b = order.AppendUint16(order.AppendUint16(b, uint16(e.v)), 0)
		} else {
			b = order.AppendUint32(b, e.v)
		}
	}
	return order.AppendUint32(b, 0)
}

// withEXIF inserts an EXIF segment behind the start of a JPEG.
func withEXIF(jpeg, block []byte) []byte {
	body := append([]byte("Exif\x00\x00"), block...)
	b := append(bytes.Clone(jpeg[:2]), 0xff, 0xe1)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)+2))
	return append(append(b, body...), jpeg[2:]...)
}

func TestOrientation(t *testing.T) {
	jpeg := goldenJPEGs(t)[0]
	require.Equal(t, 1, Orientation(jpeg))
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for v := range uint32(12) {
			want := int(v)
			if v < 1 || v > 8 {
				want = 1
			}
			require.Equal(t, want, Orientation(withEXIF(jpeg, exifBlock(order, 3, v))))
			require.Equal(t, want, Orientation(withEXIF(jpeg, exifBlock(order, 4, v))))
		}
		block := exifBlock(order, 3, 6)
		require.Equal(t, 6, Orientation(block), "a TIFF file's own tag")
		require.Equal(t, 6, Orientation(pngChunks(ihdr(1, 1, 8, 0), chunk("eXIf", block))))
		riff := append([]byte("RIFF\x00\x00\x00\x7fWEBPVP8X\x0a\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00VP8 \x01\x00\x00\x00x\x00EXIF"), binary.LittleEndian.AppendUint32(nil, uint32(len(block)))...)
		require.Equal(t, 6, Orientation(append(riff, block...)))
		for n := range len(block) - 4 {
			if at := 8 + 2 + 12 + 12; n < at {
				require.Equal(t, 1, Orientation(withEXIF(jpeg, block[:n])), "cut after %d bytes", n)
			}
		}
		require.Equal(t, 1, Orientation(withEXIF(jpeg, exifBlock(order, 7, 6))), "a type that is no number")
	}
	require.Equal(t, 1, Orientation([]byte("hello")))
	require.Equal(t, 1, Orientation(nil))
}

// The eight orientations of the picture
//
//	1 2 3
//	4 5 6
func TestOriented(t *testing.T) {
	p := &RGB{3, 2, nil}
	for _, v := range []byte{1, 2, 3, 4, 5, 6} {
		p.Pix = append(p.Pix, v, v+10, v+20)
	}
	for o, want := range map[int]struct {
		w, h int
		v    []byte
	}{
		1: {3, 2, []byte{1, 2, 3, 4, 5, 6}}, 2: {3, 2, []byte{3, 2, 1, 6, 5, 4}}, 3: {3, 2, []byte{6, 5, 4, 3, 2, 1}}, 4: {3, 2, []byte{4, 5, 6, 1, 2, 3}},
		5: {2, 3, []byte{1, 4, 2, 5, 3, 6}}, 6: {2, 3, []byte{4, 1, 5, 2, 6, 3}}, 7: {2, 3, []byte{6, 3, 5, 2, 4, 1}}, 8: {2, 3, []byte{3, 6, 2, 5, 1, 4}},
		0: {3, 2, []byte{1, 2, 3, 4, 5, 6}}, 9: {3, 2, []byte{1, 2, 3, 4, 5, 6}},
	} {
		q := p.oriented(o)
		require.Equal(t, want.w, q.W, o)
		require.Equal(t, want.h, q.H, o)
		for i, v := range want.v {
			require.Equal(t, []byte{v, v + 10, v + 20}, q.Pix[3*i:3*i+3], "orientation %d pixel %d", o, i)
		}
	}
}

func TestApplyEXIF(t *testing.T) {
	jpeg := goldenJPEGs(t)[0]
	turned := withEXIF(jpeg, exifBlock(binary.BigEndian, 3, 6))
	plain, err := Decode(jpeg, Options{})
	require.NoError(t, err)
	ignored, err := Decode(turned, Options{})
	require.NoError(t, err)
	require.Equal(t, plain, ignored, "without the option the tag is ignored")
	applied, err := Decode(turned, Options{ApplyEXIF: true})
	require.NoError(t, err)
	require.Equal(t, plain.oriented(6), applied)

	d, err := NewDecoder(Options{ApplyEXIF: true})
	require.NoError(t, err)
	defer d.Close()
	want, err := Resize(applied, 10, 12, Bilinear)
	require.NoError(t, err)
	pixels := make([]byte, len(want.Pix))
	require.NoError(t, d.Resized(turned, 10, 12, Bilinear, pixels))
	require.Equal(t, want.Pix, pixels)
}
