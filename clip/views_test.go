package clip_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/torch"
)

// Views are what Batch gives of files that hold only the part, under every variant.
func TestViews(t *testing.T) {
	pic := image.NewRGBA(image.Rect(0, 0, 97, 61))
	for y := range 61 {
		for x := range 97 {
			pic.SetRGBA(x, y, color.RGBA{uint8(x*x + 3*y), uint8(x * y), uint8(7*x ^ 5*y), 255})
		}
	}
	file := func(r image.Rectangle) []byte {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, pic.SubImage(r)))
		return b.Bytes()
	}
	boxes := []image.Rectangle{pic.Rect, image.Rect(0, 0, 30, 61), image.Rect(17, 20, 97, 33), image.Rect(96, 60, 97, 61)}
	parts := func(_, w, h int) ([]image.Rectangle, error) {
		require.Equal(t, [2]int{97, 61}, [2]int{w, h})
		return boxes, nil
	}
	whole := file(pic.Rect)
	variants := clip.Variants()
	for _, name := range append(variants, "longest", "torchvision") {
		t.Run(name, func(t *testing.T) {
			pre := clip.OpenAIPreprocess
			switch name {
			case "longest":
				pre.Resize = clip.LongSide
			case "torchvision":
				pre.Backend = clip.Torchvision
			default:
				var err error
				pre, err = clip.NamedPreprocess(name)
				require.NoError(t, err)
			}
			p, err := clip.NewPreprocessor(pre, 24, 24, 3, pixel.Options{})
			require.NoError(t, err)
			x, broken, err := p.Views(t.Context(), [][]byte{whole, whole[:50], whole}, len(boxes), parts)
			require.NoError(t, err)
			require.NoError(t, broken[0])
			require.Error(t, broken[1])
			require.NoError(t, broken[2])
			var files [][]byte
			for _, r := range boxes {
				files = append(files, file(r))
			}
			y, err := p.Batch(t.Context(), files)
			require.NoError(t, err)
			want, got := torch.ToSlice[float32](y), torch.ToSlice[float32](x)
			n := len(want)
			require.Len(t, got, 3*n)
			require.Equal(t, want, got[:n])
			require.Equal(t, make([]float32, n), got[n:2*n])
			require.Equal(t, want, got[2*n:])

			x, _, err = p.Views(t.Context(), [][]byte{whole}, 1, nil)
			require.NoError(t, err)
			require.Equal(t, want[:n/len(boxes)], torch.ToSlice[float32](x))
		})
	}
	p, err := clip.NewPreprocessor(clip.OpenAIPreprocess, 24, 24, 2, pixel.Options{})
	require.NoError(t, err)
	for _, bad := range []image.Rectangle{{}, image.Rect(0, 0, 98, 61)} {
		_, broken, err := p.Views(t.Context(), [][]byte{whole}, 1, func(int, int, int) ([]image.Rectangle, error) { return []image.Rectangle{bad}, nil })
		require.NoError(t, err)
		require.ErrorContains(t, broken[0], "part")
	}
	_, _, err = p.Views(t.Context(), [][]byte{whole}, 2, nil)
	require.Error(t, err)
}
