package figure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/data/shapes/shapestest"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/spml/vlm"
)

func sound(t *testing.T, svg string) {
	for _, bad := range []string{"NaN", "Inf"} {
		require.NotContains(t, svg, bad)
	}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestFigures(t *testing.T) {
	set, dir := shapestest.Folder(t), t.TempDir()
	var runs []string
	for _, m := range []string{"an", "em"} {
		c := config.Config{
			Data:     config.Data{Path: set, ImageSize: 64},
			Method:   config.Method{ID: m},
			Model:    config.Model{Backbone: "small_cnn"},
			Optim:    config.Optim{BatchSize: 16},
			Schedule: config.Schedule{Epochs: 2},
			Run:      config.Run{Dir: filepath.Join(dir, m), SaveEvery: config.SaveEvery{Off: true}},
		}
		_, err := train.Run(t.Context(), c, train.RunOptions{})
		require.NoError(t, err)
		runs = append(runs, c.Run.Dir)
	}
	scores, err := rundir.ReadEpochScores(runs[0])
	require.NoError(t, err)
	for id, want := range map[string][]string{
		"gr:fig3": {"W₁", "an, 1: ", "em, 2: ", fmt.Sprintf("hidden positives <tspan class=\"m count\">%d, mean", scores[0].Val.Hidden.Entries)},
		"gr:fig5": {"after epoch 1", "after epoch 2", "<circle"},
		"em:fig7": {"Fig. 7", "Fig. 8", "Fig. 9", "em hidden positives"},
	} {
		svg, err := Draw(t.Context(), id, runs, Options{})
		require.NoError(t, err, id)
		sound(t, string(svg))
		for _, w := range want {
			require.True(t, strings.Contains(string(svg), w), "%s: %s", id, w)
		}
	}
	// The class's entries are those of the label matrix.
	ds, sc, err := evaluate.Score(t.Context(), runs[0], data.Train, train.Events{})
	require.NoError(t, err)
	n := 0
	for i, y := range ds.Gather(ds.Labels, sc.Rows) {
		if i%ds.C() == 2 && y == 1 && ds.ObservedRow(sc.Rows[i/ds.C()])[2] != 1 {
			n++
		}
	}
	svg, err := Draw(t.Context(), "em:fig10", runs, Options{Class: ds.Classes[2]})
	require.NoError(t, err)
	sound(t, string(svg))
	require.True(t, strings.Contains(string(svg), fmt.Sprintf("positives <tspan class=\"m count\">%d, mean", n)))
	_, err = Draw(t.Context(), "em:fig10", runs, Options{Class: "unicorn"})
	require.ErrorContains(t, err, "unicorn")
	_, err = Draw(t.Context(), "gr:fig9", runs, Options{})
	require.ErrorContains(t, err, "gr:fig3")
	_, err = Draw(t.Context(), "gr:fig3", nil, Options{})
	require.ErrorContains(t, err, "wants runs")
	require.NoError(t, os.Remove(filepath.Join(runs[0], "scores.jsonl")))
	_, err = Draw(t.Context(), "gr:fig3", runs, Options{})
	require.ErrorContains(t, err, "train it anew")
}

// A sweep's picture has a point for each setting and a curve for each value of the second one.
func TestSweep(t *testing.T) {
	o := compare.Options{Settings: map[string]any{"data": shapestest.Folder(t), "backbone": "small_cnn", "image_size": int64(32), "epochs": int64(1), "batch_size": int64(32)}, Seeds: []uint32{1}, Dir: t.TempDir(), Replicates: 10}
	for _, alpha := range []float64{0.1, 0.2, 0.3} {
		for _, lr := range []float64{1e-3, 1e-2} {
			o.Variants = append(o.Variants, compare.Variant{Name: fmt.Sprint(alpha, lr), Set: map[string]any{"method": "em", "params.alpha": alpha, "lr": lr}})
		}
	}
	table, err := compare.Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, atomicfile.WriteFile(filepath.Join(o.Dir, "table.json"), 0o644, func(w io.Writer) error { return table.Write(w, "json") }))
	svg, err := Draw(t.Context(), "gr:fig2b", []string{o.Dir}, Options{})
	require.NoError(t, err)
	sound(t, string(svg))
	require.Equal(t, 2, strings.Count(string(svg), "<polyline"))
	require.Equal(t, 6, strings.Count(string(svg), "<circle"))
	for _, w := range []string{">alpha<", "lr 0.001", "lr 0.01"} {
		require.True(t, strings.Contains(string(svg), w), w)
	}
}

// The tiles are those of the pass over photos, other ones in each epoch, and the photo lies in the file.
func TestTiles(t *testing.T) {
	set := shapestest.Folder(t)
	photo := filepath.Join(set, "images", "003.png")
	svg, err := Draw(t.Context(), "aevlp:supplement-fig1", []string{photo}, Options{DataSet: "coco"})
	require.NoError(t, err)
	sound(t, string(svg))
	s, err := vlm.Published(vlm.DAMP, "coco", vlm.Default)
	require.NoError(t, err)
	s.Seed = 1200
	require.Equal(t, 3*s.Grid*s.Grid, strings.Count(string(svg), `fill="none" class="s`))
	seen := map[string]bool{}
	for epoch := 1; epoch <= 3; epoch++ {
		boxes, err := s.Boxes(epoch, 0, shapes.Size, shapes.Size)
		require.NoError(t, err)
		for _, b := range boxes {
			view := fmt.Sprintf(`viewBox="%d %d %d %d"`, b.Min.X, b.Min.Y, b.Dx(), b.Dy())
			require.Contains(t, string(svg), view)
			seen[view] = true
		}
	}
	require.Greater(t, len(seen), s.Grid*s.Grid)
	require.Equal(t, 3, strings.Count(string(svg), "data:image/jpeg;base64,"))
	_, err = Draw(t.Context(), "aevlp:supplement-fig1", []string{filepath.Join(set, "labels.csv")}, Options{})
	require.ErrorContains(t, err, "labels.csv")
}
