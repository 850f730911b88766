//go:build cgo

package pixel

import (
	"image"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/random"
)

// drawn is picture() of testdata/pixel/make_torchvision.py.
func drawn(seed uint32, w, h int) *RGB {
	g := random.New(seed)
	p := newRGB(w, h)
	for i := range p.Pix {
		u := g.RandomSample()
		if seed%2 == 1 {
			u = (u + float64(i/3%w)/float64(w)*3 + float64(i/3/w)/float64(h)*4) / 8
		}
		p.Pix[i] = byte(u * 256)
	}
	return p
}

func TestTorchvision(t *testing.T) {
	var g struct{ Cases [][8]uint32 }
	golden(t, "torchvision.json", &g)
	require.Len(t, g.Cases, 80)
	atEveryLevel(t, func(t *testing.T) {
		for i, c := range g.Cases {
			p := drawn(uint32(i), int(c[0]), int(c[1]))
			for k, want := range c[4:] {
				q, err := Resize(p, int(c[2]), int(c[3]), TorchvisionBilinear+Filter(k))
				require.NoError(t, err)
				if crc(q.Pix) != want {
					t.Errorf("case %d, %v: %v differs", i, c[:4], TorchvisionBilinear+Filter(k))
				}
			}
		}
	})
}

// Windows and flips of torchvision's filters are parts and mirrors of the whole result; normalized values are those of its bytes.
func TestTorchvisionWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for i := range 60 {
		p := drawn(uint32(i), 1+r.IntN(60), 1+r.IntN(60))
		f := Filter(r.IntN(len(filterNames)))
		g := Geometry{W: 1 + r.IntN(60), H: 1 + r.IntN(60), Filter: f}
		whole, err := Transform(p, g)
		require.NoError(t, err)
		g.Flip = i%2 == 0
		x, y := r.IntN(g.W), r.IntN(g.H)
		g.Window = image.Rect(x, y, x+1+r.IntN(g.W-x), y+1+r.IntN(g.H-y))
		part, err := Transform(p, g)
		require.NoError(t, err)
		for py := range part.H {
			for px := range part.W {
				from := g.Window.Min.X + px
				if g.Flip {
					from = g.W - 1 - from
				}
				require.Equal(t, whole.Pix[3*((g.Window.Min.Y+py)*g.W+from):][:3], part.Pix[3*(py*part.W+px):][:3], "%+v", g)
			}
		}
		d, err := NewDecoder(Options{})
		require.NoError(t, err)
		values := make([]float32, len(part.Pix))
		require.NoError(t, d.Float32(pngFile(t, asImage(p)), g, ImageNetMean, ImageNetStd, values))
		require.True(t, sameBits(normalized(part, ImageNetMean, ImageNetStd, false), values))
		require.NoError(t, d.Close())
	}
}

func TestParseFilter(t *testing.T) {
	for i := range filterNames {
		f, err := ParseFilter(Filter(i).String())
		require.NoError(t, err)
		require.Equal(t, Filter(i), f)
	}
	_, err := ParseFilter("lanczos")
	require.ErrorContains(t, err, `unknown filter "lanczos": one of bilinear, bicubic, torchvision-bilinear`)
	require.Equal(t, "Filter(9)", Filter(9).String())
}
