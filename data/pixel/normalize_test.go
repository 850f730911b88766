//go:build cgo

package pixel

import (
	"image"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// normalized is the definition: IEEE division, subtraction, division in float32.
func normalized(p *RGB, mean, std [3]float32, flip bool) []float32 {
	if flip {
		p = p.oriented(2)
	}
	out := make([]float32, 3*p.W*p.H)
	for i := range p.W * p.H {
		for c := range 3 {
			out[c*p.W*p.H+i] = (float32(p.Pix[3*i+c])/255 - mean[c]) / std[c]
		}
	}
	return out
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// The bits of torchvision for all 256 values.
func TestNormalizeGolden(t *testing.T) {
	var g struct{ ImageNet, CLIP uint32 }
	golden(t, "normalize.json", &g)
	ramp := newRGB(256, 1)
	for i := range ramp.Pix {
		ramp.Pix[i] = byte(i / 3)
	}
	atEveryLevel(t, func(t *testing.T) {
		dst := make([]float32, 3*256)
		require.NoError(t, Normalize(dst, ramp.Pix, 256, 1, ImageNetMean, ImageNetStd, false))
		require.Equal(t, g.ImageNet, floatCRC(t, dst))
		require.NoError(t, Normalize(dst, ramp.Pix, 256, 1, CLIPMean, CLIPStd, false))
		require.Equal(t, g.CLIP, floatCRC(t, dst))
	})
}

// Odd widths, flips, and constants for which the fast division is not exact.
func TestNormalizeAgainstDefinition(t *testing.T) {
	constants := [][2][3]float32{
		{ImageNetMean, ImageNetStd}, {{0, 0, 0}, {1, 1, 1}}, {{-3, 1e-30, 7}, {-0.1, 1e-38, 3e38}}, {{0.1, 0.2, 0.3}, {1e-45, 1e30, 0.7}},
	}
	atEveryLevel(t, func(t *testing.T) {
		for _, c := range constants {
			for _, size := range []image.Point{{1, 1}, {15, 2}, {16, 3}, {17, 2}, {47, 5}, {448, 2}} {
				p := fillImage("normalize", size.X, size.Y)
				for _, flip := range []bool{false, true} {
					dst := make([]float32, len(p.Pix))
					require.NoError(t, Normalize(dst, p.Pix, p.W, p.H, c[0], c[1], flip))
					require.True(t, sameBits(normalized(p, c[0], c[1], flip), dst), "%v %v %v", size, flip, c)
				}
			}
		}
	})
}

func TestNormalizeRefusesNonsense(t *testing.T) {
	p := fillImage("p", 4, 3)
	dst := make([]float32, len(p.Pix))
	nan := float32(math.NaN())
	require.Error(t, Normalize(dst[1:], p.Pix, 4, 3, ImageNetMean, ImageNetStd, false))
	require.Error(t, Normalize(dst, p.Pix[1:], 4, 3, ImageNetMean, ImageNetStd, false))
	require.Error(t, Normalize(dst, p.Pix, 0, 3, ImageNetMean, ImageNetStd, false))
	require.Error(t, Normalize(dst, p.Pix, -4, -3, ImageNetMean, ImageNetStd, false))
	require.ErrorContains(t, Normalize(dst, p.Pix, 4, 3, ImageNetMean, [3]float32{1, 0, 1}, false), "standard deviation")
	require.Error(t, Normalize(dst, p.Pix, 4, 3, [3]float32{nan}, ImageNetStd, false))
}

// CLIP's preprocessing of a synthetic picture: window, resampler and normalization together.
func TestCLIPPreprocessGolden(t *testing.T) {
	var g resizeGolden
	golden(t, "resize.json", &g)
	c := g.Resize.CLIP
	src := largeInput(t, c.InHW, 1027251197)
	p, err := Transform(src, ShortSide(src.W, src.H, c.Size, Bicubic))
	require.NoError(t, err)
	require.Equal(t, c.CRC, crc(p.Pix))
	dst := make([]float32, len(p.Pix))
	require.NoError(t, Normalize(dst, p.Pix, p.W, p.H, CLIPMean, CLIPStd, false))
	plane := p.W * p.H
	for x, want := range c.Row0 {
		for i := range 3 {
			require.InDelta(t, want[i], dst[i*plane+x], 1e-6)
		}
	}
	for i, want := range c.Means {
		sum := 0.0
		for _, v := range dst[i*plane : (i+1)*plane] {
			sum += float64(v)
		}
		require.InDelta(t, want, sum/float64(plane), 1e-6)
	}
}
