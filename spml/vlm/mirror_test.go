package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

// TestMirror: bytes are turned as numbers are.
func TestMirror(t *testing.T) {
	const photos, views, h, w = 3, 17, 4, 5
	l := &Labeller{settings: Settings{Method: DAMP, Grid: 4, Seed: 1}}
	require.Equal(t, views, l.settings.views())
	raw := make([]byte, photos*views*h*w*3)
	for i := range raw {
		raw[i] = byte(i * 7)
	}
	pixels := torch.FromSlice(raw, photos*views, h, w, 3)
	numbers := pixels.Permute(0, 3, 1, 2).ToDType(torch.Float32).Contiguous()
	before := torch.ToSlice[float32](numbers)
	p := Photos{Rows: []int{4, 0, 9}, Epoch: 2}
	l.mirror(pixels, p)
	l.mirror(numbers, p)
	require.NotEqual(t, before, torch.ToSlice[float32](numbers))
	got := pixels.Permute(0, 3, 1, 2).ToDType(torch.Float32).Contiguous()
	require.Equal(t, torch.ToSlice[float32](numbers), torch.ToSlice[float32](got))
}
