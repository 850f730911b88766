package train

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/exiftest"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
)

// phoneSet writes the photos as a data set, as they are or turned upright.
func phoneSet(t *testing.T, photos []exiftest.Photo, turn bool) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	labels, split := "filename,a,b,c\n", "filename,split\n"
	for i, p := range photos {
		b := p.Data
		if turn {
			rgb, err := pixel.Decode(p.Data, pixel.Options{ApplyEXIF: true})
			require.NoError(t, err)
			m := image.NewNRGBA(image.Rect(0, 0, rgb.W, rgb.H))
			for k := range rgb.W * rgb.H {
				copy(m.Pix[4*k:], append(rgb.Pix[3*k:3*k+3:3*k+3], 255))
			}
			var out bytes.Buffer
			require.NoError(t, png.Encode(&out, m))
			b = out.Bytes()
		}
		name := fmt.Sprintf("%03d.jpg", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), b, 0o644))
		labels += fmt.Sprintf("%s,%d,%d,%d\n", name, 1-i%2, i%2, i/3%2)
		split += name + "," + []string{"train", "train", "train", "val", "test"}[i%5] + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split), 0o644))
	return dir
}

// Training sees what a viewer shows, as Pillow turns it; with a paper's data set it sees what is stored, as the papers'
// loaders do. The run records it.
func TestTrainingOrientation(t *testing.T) {
	photos := exiftest.OfPhones(t)
	stored, upright := phoneSet(t, photos, false), phoneSet(t, photos, true)
	run := func(dataset string, change func(*config.Config)) (string, []byte) {
		c := config.Config{
			Data:     config.Data{Path: dataset, ImageSize: 32},
			Method:   config.Method{ID: "em"},
			Model:    config.Model{Backbone: "small_cnn"},
			Optim:    config.Optim{BatchSize: 32},
			Schedule: config.Schedule{Epochs: 1},
			Run:      config.Run{Threads: 1, Dir: filepath.Join(t.TempDir(), "run")},
		}
		change(&c)
		_, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(c.Run.Dir, "model", model.WeightsFile))
		require.NoError(t, err)
		return c.Run.Dir, b
	}
	folder, applied := run(stored, func(*config.Config) {})
	_, want := run(upright, func(*config.Config) {})
	require.True(t, bytes.Equal(want, applied), "by default as Pillow turns it")
	_, ignored := run(stored, func(c *config.Config) { c.Data.EXIF = pixel.EXIFIgnore })
	require.False(t, bytes.Equal(want, ignored))
	paper, asPaper := run(stored, func(c *config.Config) { c.Method.DataSet = "voc" })
	require.True(t, bytes.Equal(ignored, asPaper), "a paper's data set ignores it")
	_, both := run(stored, func(c *config.Config) { c.Method.DataSet, c.Data.EXIF = "voc", pixel.EXIFApply })
	require.True(t, bytes.Equal(want, both))

	for dir, setting := range map[string]string{folder: pixel.EXIFApply, paper: pixel.EXIFIgnore} {
		c, err := rundir.Read(dir)
		require.NoError(t, err)
		require.Equal(t, setting, c.Data.EXIF)
		mc, err := model.ReadConfig(dir)
		require.NoError(t, err)
		require.Equal(t, setting, mc.PretrainedCfg.EXIF)
		tg, err := model.OpenTagger(dir, model.TaggerOptions{Workers: 1})
		require.NoError(t, err)
		require.Equal(t, setting == pixel.EXIFApply, tg.Pixels().ApplyEXIF)
		require.NoError(t, tg.Close())
	}
	// Of the run that has no record, as of before: its data set is written down.
	yaml := filepath.Join(paper, "run.yaml")
	b, err := os.ReadFile(yaml)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(yaml, bytes.Replace(b, []byte("exif: ignore\n"), nil, 1), 0o644))
	c, err := rundir.Read(paper)
	require.NoError(t, err)
	require.Empty(t, c.Data.EXIF)
	c, err = c.Resolve()
	require.NoError(t, err)
	require.Equal(t, pixel.EXIFIgnore, c.Data.EXIF)
}

// The loader of a run gives Pillow's bytes of each photo, also from the cache that several runs share, which keeps
// turned and stored pictures apart.
func TestLoaderOrientation(t *testing.T) {
	photos := exiftest.OfPhones(t)
	ds, err := data.Open(phoneSet(t, photos, false), data.Options{})
	require.NoError(t, err)
	defer ds.Close()
	ctx := context.Background()
	data.NewImageCache(1 << 30).Share(ds)
	for _, apply := range []bool{false, true, true, false} {
		setting := map[bool]string{false: pixel.EXIFIgnore, true: pixel.EXIFApply}[apply]
		l, err := data.NewLoader(
			ds,
			data.LoaderOptions{
				Width:  24,
				Height: 16,
				Read:   data.ReadOptions{Decode: config.Data{EXIF: setting}.Pixels()},
			},
		)
		require.NoError(t, err)
		same, rows := 0, make([]int, ds.N())
		for i := range rows {
			rows[i] = i
		}
		for b, err := range l.Batches(ctx, data.Plan{Order: rows, BatchSize: 50}) {
			require.NoError(t, err)
			for i, row := range b.Rows {
				if crc32.ChecksumIEEE(b.Images[i]) == photos[row].Squash {
					same++
				}
			}
		}
		if apply {
			require.Equal(t, len(photos), same)
		} else {
			require.Less(t, same, len(photos)/3)
		}
		require.NoError(t, l.Close())
	}
}
