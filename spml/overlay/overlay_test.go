package overlay

import (
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
)

func gray(w, h int, v byte) *pixel.RGB {
	p := &pixel.RGB{W: w, H: h, Pix: make([]byte, 3*w*h)}
	for i := range p.Pix {
		p.Pix[i] = v
	}
	return p
}

func TestDraw(t *testing.T) {
	// The lower right quarter is looked at.
	m, err := Draw(gray(40, 40, 100), []float32{-3, 0, 0, 2}, 2, 2)
	require.NoError(t, err)
	require.InDelta(t, 100, m.RGBAAt(1, 1).R, 2, "evidence against is not drawn")
	hot := m.RGBAAt(38, 38)
	require.Greater(t, hot.R, uint8(180))
	require.Greater(t, hot.G, hot.B)

	flat, err := Draw(gray(4, 4, 7), []float32{1, 1, 1, 1}, 2, 2)
	require.NoError(t, err)
	require.Equal(t, color.RGBA{7, 7, 7, 255}, flat.RGBAAt(2, 2))
	_, err = Draw(gray(4, 4, 7), []float32{1}, 2, 2)
	require.ErrorContains(t, err, "is not 2×2")
}

func TestHeatRisesInLightness(t *testing.T) {
	last := -1.0
	for i := range 101 {
		c := Heat(float64(i) / 100)
		l := 0.2126*float64(c.R) + 0.7152*float64(c.G) + 0.0722*float64(c.B)
		require.GreaterOrEqual(t, l, last)
		last = l
	}
	require.Equal(t, Heat(1), Heat(7))
	require.Equal(t, Heat(0), Heat(-1))
}

func TestSheet(t *testing.T) {
	red := image.NewUniform(color.RGBA{255, 0, 0, 255})
	wide := &image.RGBA{Pix: make([]byte, 4*20*10), Stride: 80, Rect: image.Rect(0, 0, 20, 10)}
	for y := range 10 {
		for x := range 20 {
			wide.Set(x, y, red.C)
		}
	}
	m := Sheet([][]Tile{{{wide, "a caption that is far too long for its tile"}, {wide, "b"}}, {{wide, ""}}}, 50)
	require.Equal(t, image.Rect(0, 0, 2*54+4, 2*70+4), m.Rect)
	require.Equal(t, color.RGBA{255, 0, 0, 255}, m.RGBAAt(4+25, 4+25))
	require.Equal(t, color.RGBA{255, 255, 255, 255}, m.RGBAAt(4+25, 4+5), "the aspect ratio is kept")
}
