package vlm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// TestPhotosToLabels: photos as files come out as the labels that Pillow's views, the image tower's formulas in PyTorch
// and the methods' in Python give (testdata/label/make_photos.py), in each form.
func TestPhotosToLabels(t *testing.T) {
	b, err := os.ReadFile(testroot.Testdata("label", "photos.json"))
	require.NoError(t, err)
	var golden struct {
		Model    string
		Photos   []string
		Text     [][]float32
		Observed []int
		Cases    []struct {
			Method          vlm.Method
			Form            string
			Tau, Theta      float64
			Delta, Nu       float64
			TopK            int `json:"top_k"`
			Grid            int
			Cosines, Scores [][]float32
			Tiles           [][][]float32 `json:"cosines_of_tiles"`
			Labels          [][]int8
		}
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	require.Len(t, golden.Cases, 7)
	n, classes := len(golden.Photos), make([]string, len(golden.Text))
	for i := range classes {
		classes[i] = string(rune('a' + i))
	}
	text := filepath.Join(t.TempDir(), "text.npy")
	a, err := npy.New([]int64{int64(len(classes)), int64(len(golden.Text[0]))}, slices.Concat(golden.Text...))
	require.NoError(t, err)
	require.NoError(t, npy.Write(text, a))
	m, err := clip.Open(testroot.Shared(t, "data", golden.Model), clip.Options{})
	require.NoError(t, err)
	defer m.Close()
	p, observed := vlm.Photos{}, make([]int8, n*len(classes))
	for i, name := range golden.Photos {
		file, err := os.ReadFile(testroot.Shared(t, "data", name))
		require.NoError(t, err)
		p.Rows, p.Files = append(p.Rows, i), append(p.Files, file)
		observed[i*len(classes)+golden.Observed[i]] = 1
	}
	for _, c := range golden.Cases {
		s, err := vlm.Published(c.Method, "", c.Form)
		require.NoError(t, err)
		s.Tau, s.Theta, s.Delta, s.TextFeatures = c.Tau, c.Theta, c.Delta, text
		if c.Method == vlm.DAMP {
			s.Nu, s.TopK, s.Grid, s.Overlap, s.Noise = c.Nu, c.TopK, c.Grid, 0, false
		}
		l, err := vlm.New(t.Context(), m, classes, s)
		require.NoError(t, err)
		global, tiles, broken, err := l.Cosines(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, make([]error, n), broken)
		require.InDeltaSlice(t, slices.Concat(c.Cosines...), torch.ToSlice[float32](global), 1e-4)
		if c.Method == vlm.DAMP {
			var want []float32
			for _, of := range c.Tiles {
				want = append(want, slices.Concat(of...)...)
			}
			require.InDeltaSlice(t, want, torch.ToSlice[float32](tiles.Transpose(0, 1).Contiguous()), 1e-4)
		}
		got, _, err := l.Label(t.Context(), p, observed)
		require.NoError(t, err)
		require.Equal(t, slices.Concat(c.Labels...), got.Pseudo, "%s %s", c.Method, c.Form)
		require.InDeltaSlice(t, slices.Concat(c.Scores...), got.Scores, 1e-3)
	}
}
