//go:build cgo

package pixel

import (
	"bytes"
	"image"
	"image/png"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenJPEGs are the five small files of the goldens; they need no data root.
func goldenJPEGs(t testing.TB) [][]byte {
	var g resizeGolden
	golden(t, "resize.json", &g)
	var all [][]byte
	for _, f := range g.JPEG.Files {
		all = append(all, f.JPEG)
	}
	require.NotEmpty(t, all)
	return all
}

func pngFile(t testing.TB, m image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}

// asImage is the picture as the standard library has it.
func asImage(p *RGB) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, p.W, p.H))
	for i := range p.W * p.H {
		copy(m.Pix[4*i:], append(p.Pix[3*i:3*i+3:3*i+3], 255))
	}
	return m
}

// One call must give what decoding, resizing and normalizing give one after the other, for JPEG and for the other formats.
func TestDecoderIsDecodeThenTransform(t *testing.T) {
	files := append(goldenJPEGs(t), pngFile(t, asImage(fillImage("png", 31, 17))))
	for _, b := range files {
		p, err := Decode(b, Options{})
		require.NoError(t, err)
		var d Decoder // the zero value works
		for _, g := range []Geometry{
			Squash(20, 30, Bilinear), Squash(64, 48, Bicubic), ShortSide(p.W, p.H, 8, Bicubic), Squash(p.W, p.H, Bilinear),
			{W: 11, H: 12, Source: image.Rect(2, 1, 9, 8), Window: image.Rect(3, 2, 10, 12), Flip: true},
		} {
			want, err := Transform(p, g)
			require.NoError(t, err)
			pixels := make([]byte, len(want.Pix))
			require.NoError(t, d.Uint8(b, g, pixels))
			require.Equal(t, want.Pix, pixels)
			values := make([]float32, len(want.Pix))
			require.NoError(t, d.Float32(b, g, ImageNetMean, ImageNetStd, values))
			require.True(t, sameBits(normalized(want, ImageNetMean, ImageNetStd, false), values))
			clear(values)
			require.NoError(t, d.TransformFloat32(p, g, ImageNetMean, ImageNetStd, values))
			require.True(t, sameBits(normalized(want, ImageNetMean, ImageNetStd, false), values))
		}
		for range 2 { // the second time into the same memory
			got, err := d.Decode(b)
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
		values, flipped := make([]float32, 3*9*9), make([]float32, 3*9*9)
		require.NoError(t, d.Normalized(b, 9, 9, Bilinear, CLIPMean, CLIPStd, false, values))
		require.NoError(t, d.Normalized(b, 9, 9, Bilinear, CLIPMean, CLIPStd, true, flipped))
		for i := range 3 * 9 {
			for x := range 9 {
				require.Equal(t, values[i*9+x], flipped[i*9+8-x])
			}
		}
		require.NoError(t, d.Close())
	}
}

func TestDecoderRefusesWrongSizes(t *testing.T) {
	b := goldenJPEGs(t)[0]
	d, err := NewDecoder(Options{})
	require.NoError(t, err)
	defer d.Close()
	require.Error(t, d.Resized(b, 8, 8, Bilinear, make([]byte, 8*8*3-1)))
	require.Error(t, d.Resized(b, 8, 8, Bilinear, make([]byte, 8*8*3+1)))
	require.Error(t, d.Resized(b, 0, 8, Bilinear, nil))
	require.Error(t, d.Resized(b, -8, -8, Bilinear, make([]byte, 8*8*3)))
	require.Error(t, d.Resized(b, 1<<31, 1<<31, Bilinear, nil))
	require.Error(t, d.Normalized(b, 8, 8, Bilinear, ImageNetMean, [3]float32{}, false, make([]float32, 8*8*3)))
	require.Error(t, d.Uint8(b, Geometry{W: 8, H: 8, Source: image.Rect(0, 0, 1000, 1000)}, make([]byte, 8*8*3)))
	require.NoError(t, d.Resized(b, 8, 8, Bilinear, make([]byte, 8*8*3)), "an error must not spoil the decoder")
}

func TestDecoderHasALimit(t *testing.T) {
	b := goldenJPEGs(t)[0]
	d, err := NewDecoder(Options{MaxPixels: 100})
	require.NoError(t, err)
	defer d.Close()
	require.ErrorIs(t, d.Resized(b, 8, 8, Bilinear, make([]byte, 8*8*3)), ErrTooLarge)
	_, err = Decode(b, Options{MaxPixels: 100})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Decode(pngFile(t, image.NewGray(image.Rect(0, 0, 11, 10))), Options{MaxPixels: 100})
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestDecoderBelongsToOneGoroutine(t *testing.T) {
	var d Decoder
	e, err := d.enter()
	require.NoError(t, err)
	require.ErrorIs(t, d.Resized(nil, 8, 8, Bilinear, make([]byte, 8*8*3)), errBusy)
	_, err = d.Decode(nil)
	require.ErrorIs(t, err, errBusy)
	require.ErrorIs(t, d.TransformFloat32(newRGB(8, 8), Squash(8, 8, Bilinear), CLIPMean, CLIPStd, make([]float32, 8*8*3)), errBusy)
	require.ErrorIs(t, d.Close(), errBusy)
	e.done()
	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "closing twice")
	require.NoError(t, d.Resized(goldenJPEGs(t)[0], 8, 8, Bilinear, make([]byte, 8*8*3)), "a closed decoder starts anew")
	require.Error(t, d.TransformFloat32(newRGB(8, 8), Squash(8, 8, Bilinear), CLIPMean, CLIPStd, make([]float32, 8)))
	require.Error(t, d.TransformFloat32(nil, Squash(8, 8, Bilinear), CLIPMean, CLIPStd, make([]float32, 8*8*3)))
	_, err = d.Decode([]byte("no picture"))
	require.ErrorIs(t, err, ErrUnknownFormat)
	require.NoError(t, d.Close())
}

// Decoding one file must not depend on what the decoder has seen before: this one brings no Huffman tables.
func TestDecoderHasNoMemory(t *testing.T) {
	files := goldenJPEGs(t)
	bare := withoutSegment(files[0], 0xc4)
	fresh, err := Decode(bare, Options{})
	require.NoError(t, err)
	var d Decoder
	defer d.Close()
	pixels := make([]byte, len(fresh.Pix))
	for _, b := range append(files, bare) {
		_ = d.Resized(b, fresh.W, fresh.H, Bilinear, pixels)
	}
	require.Equal(t, fresh.Pix, pixels)
}

// withoutSegment takes out the JPEG segments with that marker.
func withoutSegment(b []byte, marker byte) []byte {
	out := append([]byte{}, b[:2]...)
	for i := 2; ; {
		end := i + 2 + int(b[i+2])<<8 + int(b[i+3])
		if b[i+1] == 0xda {
			return append(out, b[i:]...)
		}
		if b[i+1] != marker {
			out = append(out, b[i:end]...)
		}
		i = end
	}
}

func TestDecoderAllocatesNothing(t *testing.T) {
	files := goldenJPEGs(t)
	d, err := NewDecoder(Options{})
	require.NoError(t, err)
	defer d.Close()
	pixels, values := make([]byte, 64*48*3), make([]float32, 64*48*3)
	n := testing.AllocsPerRun(100, func() {
		for _, b := range files {
			if d.Resized(b, 64, 48, Bilinear, pixels) != nil || d.Normalized(b, 64, 48, Bicubic, ImageNetMean, ImageNetStd, true, values) != nil {
				panic("decoding failed")
			}
		}
	})
	require.Zero(t, n)
}

// 16 goroutines, each with its decoder, and the package's functions beside them.
func TestConcurrentDecoding(t *testing.T) {
	files := append(goldenJPEGs(t), pngFile(t, asImage(fillImage("png", 31, 17))))
	want := make([][]byte, len(files))
	for i, b := range files {
		p, err := Decode(b, Options{})
		require.NoError(t, err)
		p, err = Resize(p, 40, 30, Bilinear)
		require.NoError(t, err)
		want[i] = p.Pix
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			d, err := NewDecoder(Options{})
			if err != nil {
				t.Error(err)
				return
			}
			pixels := make([]byte, 40*30*3)
			for n := range 60 {
				i := n % len(files)
				if err := d.Resized(files[i], 40, 30, Bilinear, pixels); err != nil || !bytes.Equal(pixels, want[i]) {
					t.Errorf("file %d: %v", i, err)
				}
				if n%7 == 0 {
					p, err := Decode(files[i], Options{})
					if err != nil {
						t.Error(err)
						continue
					}
					if q, err := Resize(p, 40, 30, Bilinear); err != nil || !bytes.Equal(q.Pix, want[i]) {
						t.Errorf("file %d: %v", i, err)
					}
				}
			}
		})
	}
	all.Wait()
	runtime.GC() // nobody closed the decoders
}
