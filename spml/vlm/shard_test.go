package vlm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// The files of several parts are those of one pass, in whatever order the parts run, also with a part that was killed, with more parts than batches and with parts at once.
func TestShards(t *testing.T) {
	const n = 23
	ds, m := open(t, folder(t, n)), model(t)
	l, err := vlm.New(t.Context(), m, ds.Classes, settings(t, vlm.DAMP, vlm.Default, 2))
	require.NoError(t, err)
	outputs := func() vlm.Outputs {
		dir := t.TempDir()
		return vlm.Outputs{Labels: filepath.Join(dir, "l.npy"), Evidence: filepath.Join(dir, "l.jsonl"), Sheet: filepath.Join(dir, "l.html"), Photos: 4}
	}
	read := func(o vlm.Outputs) (files [3]string) {
		for i, p := range []string{o.Labels, o.Evidence, o.Sheet} {
			b, err := os.ReadFile(p)
			require.NoError(t, err)
			files[i] = string(b)
		}
		left, err := os.ReadDir(filepath.Dir(o.Labels))
		require.NoError(t, err)
		require.Len(t, left, 3, "parts are removed")
		return files
	}
	whole := outputs()
	one, err := l.Run(t.Context(), ds, whole, vlm.Events{})
	require.NoError(t, err)
	want := read(whole)
	for _, count := range []int{1, 2, 3, 5, 40} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			o := outputs()
			for k := range count {
				o.Shard = vlm.Shard{Index: count - 1 - k, Count: count} // the last part first
				sum, err := l.Run(t.Context(), ds, o, vlm.Events{})
				require.NoError(t, err)
				if k < count-1 {
					require.Len(t, sum.Waiting, count-1-k)
					require.Contains(t, sum.String(), "have not")
					require.NoFileExists(t, o.Labels)
					continue
				}
				require.Equal(t, one.Positives, sum.Positives)
				require.Equal(t, n, sum.Photos)
				require.Equal(t, one.Quality, sum.Quality)
			}
			require.Equal(t, want, read(o))
		})
	}
	t.Run("killed", func(t *testing.T) {
		o := outputs()
		o.Shard = vlm.Shard{Index: 1, Count: 2}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := l.Run(ctx, ds, o, vlm.Events{Step: func(done, total int, _ float64) {
			require.Equal(t, 11, total)
			if done == 4 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "stopped after 4 of 11 photos")
		o.Shard.Index = 0
		sum, err := l.Run(t.Context(), ds, o, vlm.Events{})
		require.NoError(t, err)
		require.Equal(t, []string{"2/2"}, sum.Waiting)
		o.Shard.Index = 1
		sum, err = l.Run(t.Context(), ds, o, vlm.Events{})
		require.NoError(t, err)
		require.Equal(t, 4, sum.Resumed)
		require.Equal(t, want, read(o))
	})
	t.Run("at once", func(t *testing.T) {
		o := outputs()
		var wg sync.WaitGroup
		var mu sync.Mutex
		wrote := 0
		for i := range 3 {
			wg.Go(func() {
				o := o
				o.Shard = vlm.Shard{Index: i, Count: 3}
				sum, err := l.Run(t.Context(), ds, o, vlm.Events{})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if len(sum.Waiting) == 0 && !sum.Merged {
					wrote++
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, wrote)
		require.Equal(t, want[0], read(o)[0]) // within a process calls at once have one thread each, which changes the last bits of scores
	})
	t.Run("of another run", func(t *testing.T) {
		o := outputs()
		o.Shard = vlm.Shard{Count: 2}
		_, err := l.Run(t.Context(), ds, o, vlm.Events{})
		require.NoError(t, err)
		s := l.Settings()
		s.Tau = 0.5
		other, err := vlm.New(t.Context(), m, ds.Classes, s)
		require.NoError(t, err)
		o.Shard.Index = 1
		_, err = other.Run(t.Context(), ds, o, vlm.Events{})
		require.ErrorContains(t, err, "1-of-2.partial is of another run")
		require.NoFileExists(t, o.Labels)
	})
	for text, want := range map[string]vlm.Shard{"1/1": {Count: 1}, "2/4": {Index: 1, Count: 4}, "0/4": {}, "5/4": {}, "1": {}, "a/b": {}, "1/-2": {}} {
		s, err := vlm.ParseShard(text)
		require.Equal(t, want, s)
		require.Equal(t, want.Count == 0, err != nil, text)
	}
}

// export writes the built-in model as files.
func export(t *testing.T, dir string, change func(*clip.CLIP)) string {
	c, _, err := clip.Builtin()
	require.NoError(t, err)
	if change != nil {
		change(c)
	}
	require.NoError(t, clip.Export(dir, c, clip.OpenCLIP, torch.Float32))
	return dir
}

// Features of prompts are kept by model, arithmetic and prompts, and what is kept is what the tower gives.
func TestTextCache(t *testing.T) {
	tmp, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	first := export(t, filepath.Join(tmp, "first"), nil)
	classes := []string{"circle", "square", "triangle"}
	features := func(path string, dtype torch.DType, change func(*vlm.Settings)) (values []float32, source string) {
		m, err := clip.Open(path, clip.Options{DType: dtype})
		require.NoError(t, err)
		defer m.Close()
		s := settings(t, vlm.VLPL, vlm.Default, 4)
		s.Cache = cache
		if change != nil {
			change(&s)
		}
		l, err := vlm.New(t.Context(), m, classes, s)
		require.NoError(t, err)
		values, err = l.Text()
		require.NoError(t, err)
		return values, l.Source()
	}
	entries := func() int {
		files, err := filepath.Glob(filepath.Join(cache, "*.npy"))
		require.NoError(t, err)
		return len(files)
	}
	want, source := features(first, torch.Float32, func(s *vlm.Settings) { s.Cache = "" })
	require.Empty(t, source)
	require.Zero(t, entries())
	got, source := features(first, torch.Float32, nil)
	require.Contains(t, source, "made and kept in")
	require.Equal(t, want, got)
	got, source = features(first, torch.Float32, nil)
	require.Contains(t, source, "text features from "+cache)
	require.Equal(t, want, got)
	require.Equal(t, 1, entries())

	// A copy of the model is the same model.
	copied := export(t, filepath.Join(tmp, "copy"), nil)
	_, source = features(copied, torch.Float32, nil)
	require.Contains(t, source, "text features from "+cache)
	require.Equal(t, 1, entries())

	for i, change := range []func(*vlm.Settings){
		func(s *vlm.Settings) { s.Templates = []string{"a picture of a {name}."} },
		func(s *vlm.Settings) { s.Templates = []string{"a photo of a {name}.", "a picture of a {name}."} },
		func(s *vlm.Settings) { s.Names = []string{"disc", "square", "triangle"} },
	} {
		changed, source := features(first, torch.Float32, change)
		require.Contains(t, source, "made and kept in")
		require.NotEqual(t, want, changed)
		require.Equal(t, 2+i, entries())
	}
	_, source = features(first, torch.BFloat16, nil)
	require.Contains(t, source, "made and kept in")

	// Other weights at the same path, of the same size.
	export(t, first, func(c *clip.CLIP) { torch.View(c.TextTower.TextProjection, func(w []float32) { w[0] += 1 }) })
	n := entries()
	_, source = features(first, torch.Float32, nil)
	require.Contains(t, source, "made and kept in")
	require.Equal(t, n+1, entries())

	// A damaged entry is made anew.
	_, source = features(copied, torch.Float32, nil)
	path := strings.TrimPrefix(source, "text features from ")
	require.FileExists(t, path)
	require.NoError(t, os.Truncate(path, 100))
	got, source = features(copied, torch.Float32, nil)
	require.Contains(t, source, "could not be used")
	require.Equal(t, want, got)
	_, source = features(copied, torch.Float32, nil)
	require.Contains(t, source, "text features from "+cache)

	// A folder that cannot be written is said and no error.
	require.NoError(t, os.WriteFile(filepath.Join(tmp, "file"), nil, 0o644))
	got, source = features(copied, torch.Float32, func(s *vlm.Settings) { s.Cache = filepath.Join(tmp, "file", "x") })
	require.Contains(t, source, "not kept")
	require.Equal(t, want, got)
}

// The labels of a pass over many photos are written batch by batch.
func TestManyClasses(t *testing.T) {
	const n, c = 3, 10_000
	dir := folder(t, n)
	classes := &strings.Builder{}
	row := &strings.Builder{}
	for i := range c {
		fmt.Fprintf(classes, ",class %d", i)
		fmt.Fprintf(row, ",%d", map[bool]int{true: 1}[i%5000 == 7])
	}
	table := &strings.Builder{}
	fmt.Fprintf(table, "filename%s\n", classes)
	for i := range n {
		fmt.Fprintf(table, "%03d.png%s\n", i, row)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(table.String()), 0o644))
	ds, m := open(t, dir), model(t)
	require.Equal(t, c, ds.C())
	f := make([]float32, c*m.Config().EmbedDim)
	for i := range f {
		f[i] = float32((i*7919)%1001) - 500
	}
	a, err := npy.New([]int64{c, int64(m.Config().EmbedDim)}, f)
	require.NoError(t, err)
	for _, method := range []vlm.Method{vlm.VLPL, vlm.DAMP} {
		s := settings(t, method, vlm.Paper, 2)
		s.Noise, s.Delta = false, 0.3
		s.TextFeatures = filepath.Join(t.TempDir(), "text.npy")
		require.NoError(t, npy.Write(s.TextFeatures, a))
		l, err := vlm.New(t.Context(), m, ds.Classes, s)
		require.NoError(t, err)
		o := vlm.Outputs{Labels: filepath.Join(t.TempDir(), "l.npy"), Evidence: filepath.Join(t.TempDir(), "l.jsonl")}
		sum, err := l.Run(t.Context(), ds, o, vlm.Events{})
		require.NoError(t, err)
		require.Equal(t, n, sum.Observed)
		labels := readNPY(t, o.Labels)
		for i := range n {
			negatives := count(labels[i*c:(i+1)*c], -1)
			require.InDelta(t, 3000, negatives, 20, "observed ones may be among them, equal ones are")
			require.Equal(t, 1, count(labels[i*c:(i+1)*c], 1)-countPseudo(labels[i*c:(i+1)*c], ds, i))
		}
	}
}

// countPseudo counts positives that are not observed.
func countPseudo(labels []int8, ds *data.Dataset, row int) (n int) {
	for k, y := range ds.ObservedRow(row) {
		if y != 1 && labels[k] == 1 {
			n++
		}
	}
	return n
}

// The released text features of ViT-L/14 go through the pass of a model of their width; another width is refused.
func TestReleasedTextFeatures(t *testing.T) {
	ds, err := data.Open(testroot.Shared(t, "data", "VOCdevkit"), data.Options{Seed: 1200})
	require.NoError(t, err)
	defer ds.Close()
	require.Equal(t, 20, ds.C())
	blind, _, err := clip.Builtin()
	require.NoError(t, err)
	small := blind.Config
	wide := small
	wide.EmbedDim, wide.Text = 768, nil
	torch.ManualSeed(1)
	for _, c := range []clip.Config{wide, small} {
		raw, err := clip.New(c)
		require.NoError(t, err)
		m, err := clip.NewModel(raw, clip.Options{})
		require.NoError(t, err)
		defer m.Close()
		for _, name := range []string{"VOC20text_feature.npy", "VOC20text_feature_labelonly.npy"} {
			s, err := vlm.Published(vlm.VLPL, "voc", vlm.Code)
			require.NoError(t, err)
			s.TextFeatures, s.Batch = testroot.Shared(t, "data", "clip", "text_features_vit_l14_336", name), 16
			l, err := vlm.New(t.Context(), m, ds.Classes, s)
			if c.EmbedDim != 768 {
				require.ErrorIs(t, err, vlm.ErrSettings)
				require.ErrorContains(t, err, fmt.Sprintf("has the shape [20 768]; 20 classes and this model's embeddings want [20 %d]", c.EmbedDim))
				continue
			}
			require.NoError(t, err)
			text, err := l.Text()
			require.NoError(t, err)
			a, err := npy.Read(s.TextFeatures)
			require.NoError(t, err)
			stored, err := a.Float32()
			require.NoError(t, err)
			require.InDeltaSlice(t, stored, text, 1e-6, "they are normalised already")
			sum, err := l.Run(t.Context(), ds, vlm.Outputs{Labels: filepath.Join(t.TempDir(), "l.npy")}, vlm.Events{})
			require.NoError(t, err)
			require.Equal(t, ds.N(), sum.Photos)
		}
	}
}
