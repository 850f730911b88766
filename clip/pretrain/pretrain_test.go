package pretrain

import (
	"context"
	"crypto/sha256"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/torch"
)

// small is a model that trains in a second.
func small() Settings {
	s := Shapes()
	s.Model.Vision.Width, s.Model.Vision.Heads = 4, 2
	s.Model.Text.Width, s.Model.Text.Heads, s.Model.Text.MLP, s.Model.Text.Layers = 16, 2, 32, 1
	s.Model.EmbedDim, s.Steps, s.Batch, s.Warmup = 16, 40, 12, 5
	return s
}

// Pictures that the built-in model has seen are in no data set that a user makes with a seed of a few digits.
func TestShapesAreOthers(t *testing.T) {
	seen := map[[32]byte]uint64{}
	buf := make([]byte, shapes.PictureBytes)
	for i := range uint64(1500) {
		shapes.Draw(ShapesSeed, i, buf)
		seen[sha256.Sum256(buf)] = i
	}
	require.Len(t, seen, 1500)
	for _, seed := range []uint64{0, 1, 2, 1200} {
		for part := range uint64(3) {
			for i := range uint64(100) {
				shapes.Draw(seed, part<<32|i, buf)
				require.NotContains(t, seen, sha256.Sum256(buf))
			}
		}
	}
	shapes.Draw(ShapesSeed, 7, buf)
	require.Contains(t, seen, sha256.Sum256(buf), "the test can fail")
}

func TestRunLearns(t *testing.T) {
	s := small()
	var losses []float64
	m, err := Run(t.Context(), s, NewShapes(ShapesSeed, 200), Events{Step: func(p Step) { losses = append(losses, p.Loss) }})
	require.NoError(t, err)
	require.Len(t, losses, s.Steps)
	first, last := 0.0, 0.0
	for i := range 8 {
		first, last = first+losses[i], last+losses[len(losses)-1-i]
	}
	require.Less(t, last, first*0.97)
	require.Equal(t, []int{49408, 16}, m.TokenEmbedding.Weight.Shape())
	require.Equal(t, 49408, m.Config.Text.VocabSize)
	row := func(id int) []float32 { return torch.ToSlice[float32](m.TokenEmbedding.Weight.Select(0, id)) }
	require.Equal(t, row(1000), row(2000), "unknown words are one word")
	require.NotEqual(t, row(1000), row(320), "the article is known")
	dir := t.TempDir()
	require.NoError(t, clip.Save(dir, m, torch.Float16))
	model, err := clip.Open(dir, clip.Options{})
	require.NoError(t, err)
	defer model.Close()
	_, err = model.ZeroShot(t.Context(), shapes.Classes[:], nil)
	require.NoError(t, err)
}

func TestCaptions(t *testing.T) {
	p := NewShapes(ShapesSeed, 300)
	buf := make([]byte, 16*shapes.PictureBytes)
	v := newVocabulary(p.Vocabulary())
	for range 20 {
		captions, err := p.Next(buf, 16)
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, c := range captions {
			require.False(t, seen[c], "captions of a batch differ: %q", c)
			seen[c] = true
			require.Regexp(t, `^a photo of a \w+( and a \w+)?\.$`, c)
		}
	}
	require.Less(t, len(v.ids), 40)
	_, err := p.Next(buf, 3)
	require.Error(t, err)
}

func TestCSV(t *testing.T) {
	dir := t.TempDir()
	m := image.NewRGBA(image.Rect(0, 0, 10, 7))
	for i := range m.Pix {
		m.Pix[i] = byte(40 * (i % 4))
	}
	m.Set(0, 0, color.White)
	for _, n := range []string{"a.png", "b.png"} {
		f, err := os.Create(filepath.Join(dir, n))
		require.NoError(t, err)
		require.NoError(t, png.Encode(f, m))
		require.NoError(t, f.Close())
	}
	write := func(text string) string {
		path := filepath.Join(dir, "pairs.csv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	s := small()
	s.Steps, s.Batch, s.Warmup = 2, 3, 0
	p, err := OpenCSV(write("filename,caption\na.png,one cat\nb.png,\"two dogs, running\"\n"), s.Model, 1)
	require.NoError(t, err)
	_, err = Run(t.Context(), s, p, Events{})
	require.NoError(t, err)
	for words, text := range map[string]string{
		"columns filename and caption": "a,b\n", "2 or more": "filename,caption\na.png,x\n", "leads out": "filename,caption\n../a.png,x\n",
	} {
		_, err := OpenCSV(write(text), s.Model, 1)
		require.ErrorContains(t, err, words)
	}
}

func TestRunRefuses(t *testing.T) {
	pairs := NewShapes(1, 20)
	s := small()
	s.Batch = 1
	_, err := Run(t.Context(), s, pairs, Events{})
	require.ErrorContains(t, err, "at least 2")
	s = small()
	s.Model.Text.VocabSize = 100
	_, err = Run(t.Context(), s, pairs, Events{})
	require.ErrorContains(t, err, "vocabulary 100")
	s = small()
	s.LR = 1e30
	s.Warmup = 0
	_, err = Run(t.Context(), s, pairs, Events{})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, small(), pairs, Events{})
	require.ErrorIs(t, err, context.Canceled)
}
