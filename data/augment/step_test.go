//go:build cgo

package augment

import (
	"encoding/json"
	"hash/crc32"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
)

// A sample's picture depends on seed, epoch, row and view, not on the order or the goroutine in which it is made.
func TestConcurrentDrawsAreIndependentOfWorkers(t *testing.T) {
	const n = 24
	source := draw(1, 60, 40)
	sums := func(workers int) []uint32 {
		out := make([]uint32, n)
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := w; i < n; i += workers {
					p, err := LACStrong(48).Apply(clone(source), Draw(7, 3, i, 1))
					if err != nil {
						panic(err)
					}
					out[i] = crc32.ChecksumIEEE(p.Pix)
				}
			})
		}
		all.Wait()
		return out
	}
	one := sums(1)
	require.Equal(t, one, sums(5))
	different := map[uint32]bool{}
	for _, s := range one {
		different[s] = true
	}
	require.Greater(t, len(different), n-3)
	for _, other := range []*rand.Rand{Draw(8, 3, 0, 1), Draw(7, 4, 0, 1), Draw(7, 3, 1, 1), Draw(7, 3, 0, 2)} {
		require.NotEqual(t, Draw(7, 3, 0, 1).Uint64(), other.Uint64())
	}
}

// The draws have the distributions of the papers' code.
func TestRandAugmentDistribution(t *testing.T) {
	const n = 20000
	p := draw(0, 4, 4)
	unchanged := 0
	for i := range n {
		q, err := RandAugment{}.Apply(clone(p), Draw(1, 0, i, 0))
		require.NoError(t, err)
		if crc32.ChecksumIEEE(q.Pix) == crc32.ChecksumIEEE(p.Pix) {
			unchanged++
		}
	}
	// A quarter has neither half applied; some operations do nothing to this picture.
	require.InDelta(t, 0.36, float64(unchanged)/n, 0.04)

	flips := 0
	for i := range n {
		q, err := RandomFlip().Apply(clone(p), Draw(1, 0, i, 0))
		require.NoError(t, err)
		if q.Pix[0] != p.Pix[0] {
			flips++
		}
	}
	require.InDelta(t, 0.5, float64(flips)/n, 0.02)
}

func TestCutout(t *testing.T) {
	for _, c := range []struct {
		x, y, painted int
		want          image.Rectangle
	}{ // lac.cutout_448 of the golden file
		{0, 0, 12769, image.Rect(0, 0, 112, 112)},
		{447, 447, 12769, image.Rect(335, 335, 448, 448)},
		{224, 100, 47925, image.Rect(112, 0, 336, 212)},
		{111, 336, 50176, image.Rect(0, 224, 223, 448)},
	} {
		at := Cutout{0.5}.Rectangle(448, 448, c.x, c.y)
		require.Equal(t, c.want, at)
		p := &pixel.RGB{W: 448, H: 448, Pix: make([]byte, 3*448*448)}
		require.Equal(t, c.painted, paint(p, at, 1, 2, 3))
		n := 0
		for i := 0; i < len(p.Pix); i += 3 {
			if p.Pix[i] == 1 {
				n++
				require.Equal(t, []byte{1, 2, 3}, p.Pix[i:i+3])
			}
		}
		require.Equal(t, c.painted, n)
	}
}

func TestRandomResizedCrop(t *testing.T) {
	c := RandomResizedCrop{W: 8, H: 8, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{3. / 4, 4. / 3}}
	areas, logs := 0., 0.
	const n = 4000
	for i := range n {
		r := c.rectangle(400, 300, Draw(1, 1, i, 0))
		require.True(t, r.In(image.Rect(0, 0, 400, 300)))
		share := float64(r.Dx()*r.Dy()) / 400 / 300
		require.InDelta(t, 0.54, share, 0.47)
		areas += share / n
		logs += math.Log(float64(r.Dx())/float64(r.Dy())) / n
	}
	// torchvision's means of 20,000 draws for 400 × 300: large areas of a tall ratio do not fit.
	require.InDelta(t, 0.4351, areas, 0.012)
	require.InDelta(t, 0.0314, logs, 0.01)
	// Where nothing fits, the centre: 10 pixels high, at most 4/3 as wide.
	require.Equal(t, image.Rect(493, 0, 506, 10), c.rectangle(1000, 10, rand.New(rand.NewPCG(1, 1))))
	require.Equal(t, image.Rect(0, 493, 10, 506), c.rectangle(10, 1000, rand.New(rand.NewPCG(1, 1))))
	p, err := SCPNet(8).Apply(draw(1, 30, 20), Draw(1, 1, 1, 1))
	require.NoError(t, err)
	require.Equal(t, [2]int{8, 8}, [2]int{p.W, p.H})
	_, err = RandomResizedCrop{W: 8, H: 8, Scale: [2]float64{2, 1}}.Apply(p, Draw(1, 1, 1, 1))
	require.ErrorContains(t, err, "scale [2 1]")
}

func TestStepErrors(t *testing.T) {
	_, err := LACStrong(8).Apply(nil, Draw(0, 0, 0, 0))
	require.ErrorContains(t, err, "no whole picture")
	_, err = LACStrong(8).Apply(&pixel.RGB{W: 2, H: 2, Pix: make([]byte, 11)}, Draw(0, 0, 0, 0))
	require.ErrorContains(t, err, "no whole picture")
	_, err = ColorJitter{Hue: 0.6}.Apply(draw(1, 2, 2), Draw(0, 0, 0, 0))
	require.ErrorContains(t, err, "colour jitter")
	_, err = FindOperation("Twist")
	require.ErrorContains(t, err, `"Twist"`)
	for _, p := range []Pipeline{LACWeak(5), LACPaper(5), DualCoOp(5)} {
		q, err := p.Apply(draw(1, 1, 1), Draw(0, 0, 0, 0))
		require.NoError(t, err)
		require.Equal(t, 75, len(q.Pix))
	}
}

// A pixel is enough for every operation, and gets the colour that Pillow gives it.
func TestOperationsOnOnePixel(t *testing.T) {
	var g struct {
		Pictures []struct {
			Colour [3]byte
			Ops    map[string][3]byte
		}
	}
	b, err := os.ReadFile(testroot.Testdata("augment", "one.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.Len(t, g.Pictures, 5)
	for _, c := range g.Pictures {
		require.Len(t, c.Ops, 14*9+8*9, "all but Cutout at every level, eight of them with both signs")
		for name, want := range c.Ops {
			p := applied(t, name, &pixel.RGB{W: 1, H: 1, Pix: slices.Clone(c.Colour[:])}, [2]int{})
			require.Equal(t, want[:], p.Pix, "%s of %v", name, c.Colour)
		}
	}
	// Cutout's original fails on a side of one pixel; here its square, from level 1 on, is that pixel.
	o, err := FindOperation("Cutout")
	require.NoError(t, err)
	for level := range 10 {
		p := draw(1, 1, 1)
		o.Apply(p, o.Levels[level], Draw(0, 0, 0, 0))
		if level == 0 {
			require.Equal(t, draw(1, 1, 1).Pix, p.Pix)
		} else {
			require.Equal(t, []byte{125, 122, 113}, p.Pix, level)
		}
	}
}

func BenchmarkOperations(b *testing.B) {
	p := draw(1, 448, 448)
	for _, o := range Operations {
		b.Run(o.Name, func(b *testing.B) {
			r := Draw(0, 0, 0, 0)
			for b.Loop() {
				o.Apply(p, o.Levels[5], r)
			}
		})
	}
	b.Run("LACStrong", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := LACStrong(448).Apply(clone(p), Draw(0, 0, i, 0)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
