package label

import (
	"image"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

func TestGraph(t *testing.T) {
	torch.Scope(func(*torch.Arena) {
		s := torch.FromSlice([]float64{1, .5, .25, .5, 1, .5, 0, 0, 1}, 3, 3)
		g, err := NewGraph(s, GraphConfig{TopU: 2, Weight: 0.2, Tau: 0.3})
		require.NoError(t, err)
		require.Equal(t, []float64{1, .5, 0, .5, 1, 0, 0, 0, 1}, torch.ToSlice[float64](g.Sparse.Flatten(0, -1)), "ties go to the lower class")
		bar := torch.ToSlice[float64](g.Bar.Flatten(0, -1))
		require.InDeltaSlice(t, []float64{.8, .2, 0, .2, .8, 0, 0, 0, .8}, bar, 1e-15, "a class without a neighbour keeps its own share")
		star := torch.ToSlice[float64](g.Star.SumDim([]int{1}, false))
		require.InDeltaSlice(t, []float64{1, 1, 1}, star, 1e-15)
		for _, c := range []GraphConfig{{0, .2, .3}, {4, .2, .3}, {2, 1.5, .3}, {2, .2, 0}, {2, math.NaN(), 1}} {
			_, err := NewGraph(s, c)
			require.ErrorContains(t, err, "label graph wants", "%v", c)
		}
		_, err = NewGraph(torch.Zeros(torch.S(2, 3)), GraphConfig{1, .2, .3})
		require.ErrorContains(t, err, "[2 3]")
	})
}

func TestGraphNoiseIsSeeded(t *testing.T) {
	torch.Scope(func(*torch.Arena) {
		h, a := torch.Randn(torch.S(5, 6)), torch.Eye(5)
		noise := func(seed int64) []float32 {
			n, err := NewGraphNoise(6, 8, seed, false)
			require.NoError(t, err)
			x, text, err := n.Noise(a, h)
			require.NoError(t, err)
			require.InDelta(t, 5, text.Square().Sum().Item(), 1e-5)
			return torch.ToSlice[float32](x.Flatten(0, -1))
		}
		require.Equal(t, noise(3), noise(3))
		require.NotEqual(t, noise(3), noise(4))
		n, err := NewGraphNoise(6, 8, 1, false)
		require.NoError(t, err)
		require.LessOrEqual(t, n.Weights[2].Abs().Max().Item(), 1/math.Sqrt(6))
		_, _, err = n.Noise(a, torch.Zeros(torch.S(5, 7)))
		require.ErrorContains(t, err, "width 6")
	})
}

func TestTiles(t *testing.T) {
	require.Equal(t, []image.Rectangle{image.Rect(0, 0, 3, 2), image.Rect(3, 0, 6, 2), image.Rect(0, 2, 3, 4), image.Rect(3, 2, 6, 4)}, Tiles(7, 5, 2, nil))
	for _, b := range Tiles(640, 480, 4, RandomOverlap(1, 0.2)) {
		require.True(t, b.In(image.Rect(0, 0, 640, 480)))
		require.LessOrEqual(t, b.Dx(), 160+64)
		require.GreaterOrEqual(t, b.Dx(), 160)
	}
	require.Equal(t, Tiles(640, 480, 4, RandomOverlap(7, 0.2)), Tiles(640, 480, 4, RandomOverlap(7, 0.2)))
}
