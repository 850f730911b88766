package train

import (
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
)

// photoSet writes a CSV set of small photos whose names every format can hold.
func photoSet(t *testing.T, n int) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	labels, split := "filename,ant,bee,cow\n", "filename,split\n"
	for i := range n {
		im := image.NewRGBA(image.Rect(0, 0, 40, 32))
		for y := range 32 {
			for x := range 40 {
				im.Set(x, y, color.RGBA{uint8(i * 20), uint8(x * 6), uint8(y * (i%3 + 1) * 2), 255})
			}
		}
		name := fmt.Sprintf("2008_%06d.jpg", i)
		f, err := os.Create(filepath.Join(dir, "images", name))
		require.NoError(t, err)
		require.NoError(t, jpeg.Encode(f, im, nil))
		require.NoError(t, f.Close())
		labels += fmt.Sprintf("%s,%d,%d,%d\n", name, 1-i%2, i%2, (i/2)%2)
		split += fmt.Sprintf("%s,%s\n", name, []string{"train", "train", "val", "test"}[i*4/n])
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split), 0o644))
	return dir
}

// TestFormatsTrainAlike: one set in several formats gives the same run to the last bit, and its model is scored on another format of it.
func TestFormatsTrainAlike(t *testing.T) {
	csv := photoSet(t, 16)
	d, err := data.Open(csv, data.Options{Seed: 3})
	require.NoError(t, err)
	defer d.Close()
	config := func(dir string) config.Config {
		return config.Config{
			Data:     config.Data{Path: dir, ImageSize: 32},
			Method:   config.Method{ID: "an"},
			Model:    config.Model{Backbone: "small_cnn"},
			Optim:    config.Optim{BatchSize: 4, LR: 1e-3},
			Schedule: config.Schedule{Epochs: 2},
			Run:      config.Run{Seed: 3, Threads: 1},
		}
	}
	c := config(csv)
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	want, err := Run(t.Context(), c, RunOptions{})
	require.NoError(t, err)
	for _, format := range []string{"jsonl", "coco", "webdataset", "csv", "cole", "label-studio", "spml-list"} {
		dir := filepath.Join(t.TempDir(), "mouse") // a name without meaning
		require.NoError(t, data.Write(d, dir, data.WriteOptions{Format: format, Photos: data.PhotosCopy, Lossy: format == "cole" || format == "label-studio"}))
		if format == "cole" || format == "label-studio" { // these lose parts or observed labels
			rep, err := evaluate.Run(t.Context(), c.Run.Dir, evaluate.Options{Part: data.Test, Data: dir}, Events{})
			require.NoError(t, err, format)
			require.InDelta(t, want.Best.TestMAP, rep.MAP, 1e-9, format)
			continue
		}
		got, err := Run(t.Context(), config(dir), RunOptions{})
		require.NoError(t, err, format)
		for i, e := range want.Epochs {
			require.Equal(t, e.Loss, got.Epochs[i].Loss, "%s, epoch %d", format, i+1)
			require.Equal(t, e.TestMAP, got.Epochs[i].TestMAP, format)
		}
	}
}

// TestTables: a set of features trains a head without photos, and a set with neither says what is missing.
func TestTables(t *testing.T) {
	c := config.Config{
		Data:     config.Data{Path: testroot.Testdata("data", "formats", "arff", "dense.arff")},
		Method:   config.Method{ID: "an"},
		Model:    config.Model{Mode: config.Frozen, Features: config.Paths{config.OwnFeatures}},
		Optim:    config.Optim{BatchSize: 2},
		Schedule: config.Schedule{Epochs: 3},
		Run:      config.Run{Seed: 1, Dir: filepath.Join(t.TempDir(), "run")},
	}
	res, err := Run(t.Context(), c, RunOptions{})
	require.NoError(t, err)
	require.Len(t, res.Epochs, 3)
	require.Less(t, res.Epochs[2].Loss, res.Epochs[0].Loss)
	rep, err := Evaluate(t.Context(), c.Run.Dir, data.Test, Events{})
	require.NoError(t, err)
	require.InDelta(t, res.Best.TestMAP, rep.MAP, 1e-6)

	c.Run.Dir, c.Model.Mode, c.Model.Features = "", config.FineTune, nil
	_, err = Run(t.Context(), c, RunOptions{})
	require.ErrorContains(t, err, "--frozen --features data")
	c.Data.Path, c.Data.Options = testroot.Testdata("data", "formats", "voc_lists"), config.DataOptions{
		Options: data.Options{Missing: data.MissingSkip},
	}
	_, err = Run(t.Context(), c, RunOptions{})
	require.ErrorContains(t, err, "name their folder (option images)")
	c.Data.Options = config.DataOptions{Options: data.Options{Missing: "red"}}
	_, err = Run(t.Context(), c, RunOptions{})
	var ce *config.Error
	require.ErrorAs(t, err, &ce)
}
