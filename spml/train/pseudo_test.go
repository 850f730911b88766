package train

import (
	"context"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

func labelled12(dir, method string) config.Config {
	c := small(dir, method)
	c.Schedule.Epochs, c.Optim.BatchSize, c.Run.Threads, c.Pseudo.Clip = 2, 12, 1, config.BuiltinClip
	if method == "gpr" {
		c.Pseudo.Options = config.Options{"grid": "2", "tau": "0.05", "theta": "0.2"}
	}
	return c
}

// labelsOf are the labels that an estimator gives all places in each epoch.
func labelsOf(t *testing.T, c config.Config, epochs int) [][]int8 {
	c, err := c.Ready()
	require.NoError(t, err)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	t.Cleanup(func() { ds.Close() })
	s := testSession(t, c, ds, Events{})
	rows := ds.Rows(data.Train)
	setup, err := s.setup(t.Context(), rows, nil)
	require.NoError(t, err)
	e, err := s.method.New(setup)
	require.NoError(t, err)
	defer e.(io.Closer).Close()
	var out [][]int8
	n := len(rows)
	for epoch := 1; epoch <= epochs; epoch++ {
		require.NoError(t, e.Start(epoch))
		all := make([]int8, n*ds.C())
		for from := n - n%5; from >= 0; from -= 5 { // backwards: order must not matter
			v := &label.Step{Batch: &loss.Batch{}, Epoch: epoch}
			for p := from; p < min(from+5, n); p++ {
				v.Places = append(v.Places, p)
				v.Flip = append(v.Flip, p%2 == 0)
			}
			if len(v.Places) == 0 {
				continue
			}
			require.NoError(t, e.Fill(v))
			copy(all[from*ds.C():], torch.ToSlice[int8](v.Batch.Pseudo))
			require.NoError(t, e.After(v))
		}
		out = append(out, all)
	}
	return out
}

// Labels in the loop are those of the labeller for the photos as each epoch sees them, whatever the batches.
func TestLabelsInTheLoop(t *testing.T) {
	dir := folder(t, 60)
	yes := true
	for _, method := range []string{"vlpl", "gpr"} {
		t.Run(method, func(t *testing.T) {
			c := labelled12(dir, method)
			c.Data.Flip = &yes
			got := labelsOf(t, c, 2)

			c, err := c.Ready()
			require.NoError(t, err)
			ds, err := c.Data.Open()
			require.NoError(t, err)
			defer ds.Close()
			m, err := clip.OpenBuiltin(clip.Options{})
			require.NoError(t, err)
			defer m.Close()
			set, err := c.LabelSettings()
			require.NoError(t, err)
			l, err := vlm.New(t.Context(), m, ds.Classes, set)
			require.NoError(t, err)
			rows := ds.Rows(data.Train)
			for epoch := 1; epoch <= 2; epoch++ {
				p := vlm.Photos{Rows: rows, Epoch: epoch}
				for i, r := range rows {
					b, err := ds.Source.(data.RawSource).ReadFile(r, nil)
					require.NoError(t, err)
					p.Files, p.Mirror = append(p.Files, b), append(p.Mirror, i%2 == 0)
				}
				want, _, err := l.Label(t.Context(), p, ds.Gather(ds.Observed, rows))
				require.NoError(t, err)
				require.Equal(t, want.Pseudo, got[epoch-1])
			}
			if method == "gpr" {
				require.NotEqual(t, got[0], got[1], "tiles are drawn anew in each epoch")
			} else {
				require.Equal(t, got[0], got[1], "VLPL's labels follow the photo and its mirror alone")
			}
		})
	}
}

// A run that is stopped within an epoch and goes on ends in the same weights and the same counts of pseudo-labels.
func TestResumeWithLabels(t *testing.T) {
	dir := folder(t, 60)
	yes := true
	for _, method := range []string{"vlpl", "gpr"} {
		t.Run(method, func(t *testing.T) {
			c := labelled12(dir, method)
			c.Data.Flip = &yes
			c.Run.Dir = filepath.Join(t.TempDir(), "whole")
			res, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err)
			want, wantPos := newestSum(t, c.Run.Dir)
			whole := c.Run.Dir
			c.Run.Dir = filepath.Join(t.TempDir(), "cut")
			interrupted(t, c, 2, 5)
			got, pos := newestSum(t, c.Run.Dir)
			require.Equal(t, untimed(wantPos), untimed(pos))
			require.Equal(t, want, got)

			for _, e := range res.Epochs {
				require.NotNil(t, e.Pseudo)
				require.Positive(t, e.Pseudo.Confidence)
				require.Less(t, e.Pseudo.Confidence, 1.0)
			}
			f, err := os.Open(filepath.Join(whole, "pseudo_labels.csv"))
			require.NoError(t, err)
			defer f.Close()
			table, err := csv.NewReader(f).ReadAll()
			require.NoError(t, err)
			require.Len(t, table, 3)
			svg, err := os.ReadFile(filepath.Join(whole, "pseudo_labels.svg"))
			require.NoError(t, err)
			require.Contains(t, string(svg), "precision, 2: ")
		})
	}
}

// The counts are those of the labels against the truth, counted here one by one.
func TestPseudoLabelQuality(t *testing.T) {
	dir := folder(t, 60)
	c := labelled12(dir, "vlpl")
	c.Pseudo.Clip = ""
	ds, err := func() config.Config {
		c.Pseudo.File = "x"
		p, err := c.Ready()
		require.NoError(t, err)
		return p
	}().Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	n, k := ds.N(), ds.C()
	given := make([]int8, n*k)
	for i := range given {
		given[i] = []int8{1, 0, -1, 0, 1, -1, 0}[i%7]
	}
	a, err := npy.New([]int64{int64(n), int64(k)}, given)
	require.NoError(t, err)
	c.Pseudo.File = filepath.Join(t.TempDir(), "l.npy")
	require.NoError(t, npy.Write(c.Pseudo.File, a))
	res, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	var pseudo, correct, hidden, negatives, wrong int
	for _, r := range ds.Rows(data.Train) {
		for j, y := range ds.LabelRow(r) {
			g, seen := given[r*k+j], ds.ObservedRow(r)[j] == 1
			if g == -1 {
				negatives++
				if y == 1 {
					wrong++
				}
			}
			if seen {
				continue
			}
			if y == 1 {
				hidden++
			}
			if g == 1 {
				pseudo++
				if y == 1 {
					correct++
				}
			}
		}
	}
	for _, e := range res.Epochs {
		p := e.Pseudo
		require.Equal(t, []int{pseudo, correct, hidden, negatives, wrong}, []int{p.PseudoQuality.Pseudo, p.Correct, p.Hidden, p.Negatives, p.Wrong})
		precision, recall := float64(correct)/float64(pseudo), float64(correct)/float64(hidden)
		require.InDelta(t, 100*precision, p.Precision, 1e-9)
		require.InDelta(t, 100*2*precision*recall/(precision+recall), p.F1, 1e-9)
		require.Zero(t, p.Confidence)
	}
}

func TestLabelErrors(t *testing.T) {
	dir := folder(t, 30)
	for want, change := range map[string]func(*config.Config){
		"not from both":     func(c *config.Config) { c.Pseudo.File = "x.npy" },
		"give --clip MODEL": func(c *config.Config) { c.Pseudo.Clip, c.Pseudo.Options = "", nil },
		`no option "temperature"`: func(c *config.Config) {
			c.Pseudo.Options = config.Options{"temperature": "1"}
		},
		"grid=two: want g for g×g tiles": func(c *config.Config) {
			c.Pseudo.Options = config.Options{"grid": "two"}
		},
		"the temperature τ = 0":            func(c *config.Config) { c.Pseudo.Options = config.Options{"tau": "0"} },
		"the option grid belongs to damp":  func(c *config.Config) { c.Method.ID = "vlpl" },
		"an has not":                       func(c *config.Config) { c.Method.ID = "an" },
		`clip_precision "int8" is none of`: func(c *config.Config) { c.Pseudo.Precision = "int8" },
		"no such file or directory": func(c *config.Config) {
			c.Pseudo.Clip = filepath.Join(dir, "missing.pt")
		},
		"has the shape [2 3]; 12 classes want": func(c *config.Config) {
			c.Pseudo.Options = config.Options{"relation": matrix(t, 2, 3)}
		},
		"has the shape [12 7]; 12 classes and th": func(c *config.Config) {
			c.Pseudo.Options = config.Options{"text_features": matrix(t, 12, 7)}
		},
		"has the shape [12 9]; 12 classes and th": func(c *config.Config) { c.Pseudo.TextFeatures = matrix(t, 12, 9) },
		"pseudo_options and text_features are fo": func(c *config.Config) {
			c.Method.ID, c.Pseudo.Options, c.Pseudo.TextFeatures = "an", nil, "x.npy"
		},
	} {
		c := labelled12(dir, "gpr")
		change(&c)
		_, err := Run(context.Background(), c, RunOptions{})
		require.ErrorContains(t, err, want)
	}
}

func matrix(t *testing.T, rows, columns int) string {
	a, err := npy.New([]int64{int64(rows), int64(columns)}, make([]float32, rows*columns))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "m.npy")
	require.NoError(t, npy.Write(path, a))
	return path
}

// A photo that breaks off is named and left out, in the loop as in the pass: nothing else changes its labels.
func TestCorruptPhotoInTheLoop(t *testing.T) {
	dir := folder(t, 30)
	files, err := filepath.Glob(filepath.Join(dir, "images", "*"))
	require.NoError(t, err)
	good, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], good[:len(good)/2], 0o644))
	for _, method := range []string{"vlpl", "gpr"} {
		res, err := Run(context.Background(), labelled12(dir, method), RunOptions{})
		require.NoError(t, err)
		require.Len(t, res.Broken, 1)
		require.Equal(t, filepath.Base(files[0]), filepath.Base(res.Broken[0].Name))
		require.ErrorContains(t, res.Broken[0].Err, "")
		require.NotNil(t, res.Epochs[0].Pseudo)
	}
}

// Text features from a file make the labels that their prompts make, and are found from any folder.
func TestTextFeaturesInTheLoop(t *testing.T) {
	dir := folder(t, 30)
	c := labelled12(dir, "vlpl")
	want := labelsOf(t, c, 2)
	m, err := clip.OpenBuiltin(clip.Options{})
	require.NoError(t, err)
	defer m.Close()
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	s, err := c.LabelSettings()
	require.NoError(t, err)
	l, err := vlm.New(t.Context(), m, ds.Classes, s)
	require.NoError(t, err)
	f, err := l.Text()
	require.NoError(t, err)
	a, err := npy.New([]int64{int64(ds.C()), int64(len(f) / ds.C())}, f)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, npy.Write("text.npy", a))
	c.Pseudo.TextFeatures = "text.npy"
	require.Equal(t, want, labelsOf(t, c, 2))
	p, err := c.Ready()
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(p.Pseudo.TextFeatures))
}
