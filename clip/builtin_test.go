package clip_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/pretrain"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/metric"
)

// The built-in model tells drawn things apart in pictures of seeds that it was not trained on.
func TestBuiltin(t *testing.T) {
	m, err := clip.OpenBuiltin(clip.Options{})
	require.NoError(t, err)
	defer m.Close()
	require.Contains(t, m.Loaded().String(), "nothing of photos")
	const n = 400
	d, err := shapes.New(1, 0, 0, n)
	require.NoError(t, err)
	pictures := make([]byte, n*shapes.PictureBytes)
	for i := range n {
		shapes.Draw(1, uint64(2)<<32|uint64(i), pictures[i*shapes.PictureBytes:(i+1)*shapes.PictureBytes])
	}
	z, err := m.ZeroShot(t.Context(), d.Classes, nil)
	require.NoError(t, err)
	x, err := m.EncodeImage(t.Context(), pretrain.Input(pictures, n, m.Config()))
	require.NoError(t, err)
	s, err := z.Embeddings(t.Context(), x)
	require.NoError(t, err)
	mAP, err := metric.MAP(s.Cosines, d.Labels, len(d.Classes))
	require.NoError(t, err)
	chance, err := metric.MAP(make([]float32, len(d.Labels)), d.Labels, len(d.Classes))
	require.NoError(t, err)
	t.Logf("zero-shot mAP %.2f, chance %.2f", mAP, chance)
	require.Greater(t, mAP, chance+25)
}
