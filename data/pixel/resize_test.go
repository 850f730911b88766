//go:build cgo

package pixel

import (
	"image"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type resizeGolden struct {
	Resize struct {
		Coefficients map[string][]struct {
			First   int32
			Fixed22 []int32
		}
		Small []struct {
			Kind   string
			Input  []byteNumber
			InHW   [2]int `json:"in_hw"`
			OutHW  [2]int `json:"out_hw"`
			Output []byteNumber
		}
		Large []struct {
			Kind    string
			InHW    [2]int       `json:"in_hw"`
			OutHW   [2]int       `json:"out_hw"`
			InCRC   uint32       `json:"in_crc32"`
			OutCRC  uint32       `json:"out_crc32"`
			First12 []byteNumber `json:"out_first_12"`
		}
		Geometry []struct {
			InWH      [2]int `json:"in_wh"`
			Size      int
			ResizedWH [2]int `json:"resized_wh"`
			Corner    [2]int `json:"crop_left_top_round_half_even"`
		}
		CLIP struct {
			InHW  [2]int `json:"in_hw"`
			Size  int
			CRC   uint32       `json:"uint8_crc32"`
			Row0  [][3]float32 `json:"row0_first4_rgb"`
			Means [3]float64   `json:"channel_mean"`
		} `json:"clip_preprocess"`
	}
	JPEG struct {
		Files []struct {
			Name string
			WH   [2]int
			JPEG []byte `json:"jpeg_base64"`
			RGB  []byteNumber
		}
	}
}

// byteNumber keeps encoding/json from reading a list of numbers as base64.
type byteNumber uint16

func toBytes(n []byteNumber) []byte {
	b := make([]byte, len(n))
	for i, v := range n {
		b[i] = byte(v)
	}
	return b
}

var filters = map[string]Filter{"bilinear": Bilinear, "bicubic": Bicubic}

func TestCoefficientsGolden(t *testing.T) {
	var g resizeGolden
	golden(t, "resize.json", &g)
	l, err := load()
	require.NoError(t, err)
	sizes := map[string]struct {
		in, out int
		f       Filter
	}{
		"bicubic_7_to_3": {7, 3, Bicubic}, "bicubic_3_to_7": {3, 7, Bicubic}, "bilinear_7_to_3": {7, 3, Bilinear},
		"bilinear_3_to_7": {3, 7, Bilinear}, "bicubic_10_to_4": {10, 4, Bicubic},
	}
	require.Len(t, g.Resize.Coefficients, len(sizes))
	for name, want := range g.Resize.Coefficients {
		s, ok := sizes[name]
		require.True(t, ok, name)
		first, weights := l.coefficients(s.in, s.out, s.f)
		require.Len(t, want, s.out)
		for i, w := range want {
			require.Equal(t, w.First, first[i], "%s output %d", name, i)
			require.Equal(t, w.Fixed22, weights[i], "%s output %d", name, i)
		}
	}
}

func TestResizeGolden(t *testing.T) {
	var g resizeGolden
	golden(t, "resize.json", &g)
	require.NotEmpty(t, g.Resize.Small)
	require.NotEmpty(t, g.Resize.Large)
	atEveryLevel(t, func(t *testing.T) {
		for _, c := range g.Resize.Small {
			src := &RGB{c.InHW[1], c.InHW[0], toBytes(c.Input)}
			got, err := Resize(src, c.OutHW[1], c.OutHW[0], filters[c.Kind])
			require.NoError(t, err)
			require.Equal(t, toBytes(c.Output), got.Pix, "%s %v to %v", c.Kind, c.InHW, c.OutHW)
		}
		for _, c := range g.Resize.Large {
			src := largeInput(t, c.InHW, c.InCRC)
			got, err := Resize(src, c.OutHW[1], c.OutHW[0], filters[c.Kind])
			require.NoError(t, err)
			require.Equal(t, toBytes(c.First12), got.Pix[:12])
			require.Equal(t, c.OutCRC, crc(got.Pix), "%s %v to %v", c.Kind, c.InHW, c.OutHW)
		}
	})
}

// largeInput is the smooth picture of the goldens that are given by their checksum only: waves that run from 0 to 255 and back.
func largeInput(t *testing.T, hw [2]int, want uint32) *RGB {
	t.Helper()
	p := newRGB(hw[1], hw[0])
	wave := func(v int) byte { return byte(min(v%511, 510-v%511)) }
	for y := range p.H {
		for x := range p.W {
			copy(p.Pix[(y*p.W+x)*3:], []byte{wave(7*x + 3*y), wave(x*x/97 + 5*y), wave(2*x + y*y/61)})
		}
	}
	require.Equal(t, want, crc(p.Pix), "the input of %v", hw)
	return p
}

func TestShortSideGolden(t *testing.T) {
	var g resizeGolden
	golden(t, "resize.json", &g)
	require.NotEmpty(t, g.Resize.Geometry)
	for _, c := range g.Resize.Geometry {
		s := ShortSide(c.InWH[0], c.InWH[1], c.Size, Bicubic)
		require.Equal(t, c.ResizedWH, [2]int{s.W, s.H}, "%v", c.InWH)
		require.Equal(t, image.Rect(c.Corner[0], c.Corner[1], c.Corner[0]+c.Size, c.Corner[1]+c.Size), s.Window, "%v", c.InWH)
	}
}

// slowResize is Pillow's definition written plainly: two passes with rounding to 8 bit between them.
func slowResize(l *library, p *RGB, w, h int, f Filter) *RGB {
	horizontal := func(p *RGB) *RGB {
		if p.W == w {
			return p
		}
		q := newRGB(w, p.H)
		first, weights := l.coefficients(p.W, w, f)
		for y := range q.H {
			for x := range q.W {
				for c := range 3 {
					sum := int32(1 << 21)
					for k, q := range weights[x] {
						sum += q * int32(p.Pix[(y*p.W+int(first[x])+k)*3+c])
					}
					q.Pix[(y*w+x)*3+c] = byte(min(max(sum>>22, 0), 255))
				}
			}
		}
		return q
	}
	vertical := func(p *RGB) *RGB {
		if p.H == h {
			return p
		}
		q := newRGB(p.W, h)
		first, weights := l.coefficients(p.H, h, f)
		for y := range q.H {
			for i := range 3 * q.W {
				sum := int32(1 << 21)
				for k, q := range weights[y] {
					sum += q * int32(p.Pix[(int(first[y])+k)*p.W*3+i])
				}
				q.Pix[y*q.W*3+i] = byte(min(max(sum>>22, 0), 255))
			}
		}
		return q
	}
	if p.H > h && p.H-h > 2*(p.W-w) {
		return horizontal(vertical(p))
	}
	return vertical(horizontal(p))
}

func crop(p *RGB, r image.Rectangle) *RGB {
	q := newRGB(r.Dx(), r.Dy())
	for y := range q.H {
		copy(q.Pix[y*q.W*3:(y+1)*q.W*3], p.Pix[((r.Min.Y+y)*p.W+r.Min.X)*3:])
	}
	return q
}

// Every kernel, with crops, windows, flips and odd sizes, against the plain definition.
func TestTransformAgainstDefinition(t *testing.T) {
	l, err := load()
	require.NoError(t, err)
	atEveryLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		rect := func(w, h int) image.Rectangle {
			if r.IntN(2) == 0 {
				return image.Rectangle{}
			}
			x, y := r.IntN(w), r.IntN(h)
			return image.Rect(x, y, x+1+r.IntN(w-x), y+1+r.IntN(h-y))
		}
		for i := range 400 {
			most := 70
			if i%40 == 0 {
				most = 700
			}
			src := fillImage("random", 1+r.IntN(most), 1+r.IntN(most))
			g := Geometry{W: 1 + r.IntN(70), H: 1 + r.IntN(70), Filter: Filter(r.IntN(2)), Flip: r.IntN(2) == 0}
			if r.IntN(5) == 0 {
				g.W = src.W
			}
			if r.IntN(5) == 0 {
				g.H = src.H
			}
			g.Source, g.Window = rect(src.W, src.H), rect(g.W, g.H)
			want := src
			if g.Source != (image.Rectangle{}) {
				want = crop(src, g.Source)
			}
			want = slowResize(l, want, g.W, g.H, g.Filter)
			if g.Flip {
				want = want.oriented(2)
			}
			if g.Window != (image.Rectangle{}) {
				want = crop(want, g.Window)
			}
			got, err := Transform(src, g)
			require.NoError(t, err)
			require.Equal(t, want.W, got.W)
			require.Equal(t, want.H, got.H)
			require.True(t, slices.Equal(want.Pix, got.Pix), "%d×%d: %+v", src.W, src.H, g)
		}
	})
}

func TestResizeKeepsSameSize(t *testing.T) {
	p := fillImage("same", 13, 7)
	q, err := Resize(p, 13, 7, Bicubic)
	require.NoError(t, err)
	require.Equal(t, p, q)
	require.NotSame(t, &p.Pix[0], &q.Pix[0])
}

func TestResizeRefusesNonsense(t *testing.T) {
	p := fillImage("p", 4, 3)
	for name, f := range map[string]func() (*RGB, error){
		"no picture":    func() (*RGB, error) { return Resize(nil, 2, 2, Bilinear) },
		"short picture": func() (*RGB, error) { return Resize(&RGB{4, 3, p.Pix[1:]}, 2, 2, Bilinear) },
		"empty picture": func() (*RGB, error) { return Resize(&RGB{}, 2, 2, Bilinear) },
		"zero width":    func() (*RGB, error) { return Resize(p, 0, 2, Bilinear) },
		"negative":      func() (*RGB, error) { return Resize(p, 2, -2, Bilinear) },
		"huge":          func() (*RGB, error) { return Resize(p, 1<<30, 1<<30, Bilinear) },
		"beyond 32 bit": func() (*RGB, error) { return Resize(p, 1<<40, 1, Bilinear) },
		"filter":        func() (*RGB, error) { return Resize(p, 2, 2, Filter(7)) },
		"outside":       func() (*RGB, error) { return Transform(p, Geometry{W: 2, H: 2, Source: image.Rect(0, 0, 5, 3)}) },
		"upside down": func() (*RGB, error) {
			return Transform(p, Geometry{W: 2, H: 2, Source: image.Rectangle{Min: image.Pt(2, 2), Max: image.Pt(1, 1)}})
		},
		"window": func() (*RGB, error) { return Transform(p, Geometry{W: 2, H: 2, Window: image.Rect(1, 1, 3, 2)}) },
	} {
		q, err := f()
		require.Error(t, err, name)
		require.Nil(t, q, name)
	}
}
