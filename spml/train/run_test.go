package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
)

func first(t *torch.Tensor) []float64 { return torch.ToSlice[float64](t.Reshape(-1)) }

// folder writes n drawn pictures as a CSV data set with a split of 60/20/20.
func folder(t *testing.T, n int) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	ds, err := shapes.New(7, n, 0, 0)
	require.NoError(t, err)
	r, err := ds.Source.NewReader(data.ReadOptions{})
	require.NoError(t, err)
	defer r.Close()
	labels, split := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(labels, "filename,%s\n", strings.Join(ds.Classes, ","))
	fmt.Fprintln(split, "filename,split")
	rgb := make([]byte, 64*64*3)
	for i := range n {
		require.NoError(t, r.Read(i, 64, 64, rgb))
		m := image.NewRGBA(image.Rect(0, 0, 64, 64))
		for p := range 64 * 64 {
			copy(m.Pix[4*p:], rgb[3*p:3*p+3])
			m.Pix[4*p+3] = 255
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		name := fmt.Sprintf("%03d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), b.Bytes(), 0o644))
		fmt.Fprint(labels, name)
		for _, y := range ds.LabelRow(i) {
			fmt.Fprintf(labels, ",%d", y)
		}
		fmt.Fprintln(labels)
		fmt.Fprintf(split, "%s,%s\n", name, []string{"train", "train", "train", "val", "test"}[i%5])
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split.String()), 0o644))
	return dir
}

func small(dir, method string) config.Config {
	return config.Config{
		Data:     config.Data{Path: dir, ImageSize: 64},
		Method:   config.Method{ID: method},
		Model:    config.Model{Backbone: "small_cnn"},
		Optim:    config.Optim{BatchSize: 16, LR: 1e-3},
		Schedule: config.Schedule{Epochs: 2},
		Run:      config.Run{Seed: 3},
	}
}

func TestRunEvaluateTag(t *testing.T) {
	dir := folder(t, 60)
	c := small(dir, "em")
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	before := torch.Live()
	var notes []string
	var steps int
	var waited float64
	res, err := Run(
		context.Background(),
		c,
		RunOptions{
			Events: Events{
				Note: func(s string) { notes = append(notes, s) },
				Step: func(s Step) { steps++; waited = max(waited, s.Waited) },
			},
		},
	)
	require.NoError(t, err)
	require.Len(t, res.Epochs, 2)
	require.NotEmpty(t, notes)
	require.NotZero(t, steps)
	require.True(t, waited > 0 && waited <= 1, "the loader's share of the time: %v", waited)
	require.Empty(t, res.Broken)

	rep, err := Evaluate(context.Background(), c.Run.Dir, data.Test, Events{})
	require.NoError(t, err)
	require.Equal(t, 12, rep.Images)
	require.InDelta(t, res.Best.TestMAP, rep.MAP, 1e-6, "the saved model scores as it did in training")
	val, err := Evaluate(context.Background(), c.Run.Dir, data.Val, Events{})
	require.NoError(t, err)
	require.InDelta(t, res.Best.ValMAP, val.MAP, 1e-6)

	var env rundir.Environment
	b, err := os.ReadFile(filepath.Join(c.Run.Dir, "env.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &env))
	require.Len(t, env.DataSHA256, 64)
	require.Equal(t, [3]int{36, 12, 12}, env.Rows)
	require.Equal(t, uint32(3), env.Seed)
	metrics, err := os.ReadFile(filepath.Join(c.Run.Dir, "metrics.csv"))
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(metrics), "\n"))

	tagger, err := Load(c.Run.Dir, TaggerOptions{Workers: 2})
	require.NoError(t, err)
	photo := filepath.Join(dir, "images", "004.png")
	want, err := tagger.TagFile(context.Background(), photo)
	require.NoError(t, err)
	require.Len(t, want, 12)
	require.Equal(t, 0.75, tagger.Config.Threshold)
	for i := 1; i < len(want); i++ {
		require.GreaterOrEqual(t, want[i-1].Probability, want[i].Probability)
	}
	_, err = tagger.Tag(context.Background(), []byte("no image"))
	require.Error(t, err)
	require.NoError(t, tagger.Close())
	require.LessOrEqual(t, torch.Live()-before, 200, "models of the run are collected, not piled up")
}

func TestConcurrentTagging(t *testing.T) {
	dir := folder(t, 20)
	c := small(dir, "an")
	c.Schedule.Epochs, c.Run.Dir = 1, filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	tagger, err := Load(c.Run.Dir, TaggerOptions{})
	require.NoError(t, err)
	defer tagger.Close()
	photo, err := os.ReadFile(filepath.Join(dir, "images", "001.png"))
	require.NoError(t, err)
	want, err := tagger.Probabilities(context.Background(), photo)
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for range 16 {
		wg.Go(func() {
			for range 5 {
				got, err := tagger.Probabilities(context.Background(), photo)
				if err == nil && !equal(got, want) {
					err = errors.New("another answer than alone")
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestSameSeedSameRun(t *testing.T) {
	dir := folder(t, 40)
	var runs [2]*Result
	for i := range runs {
		c := small(dir, "an")
		c.Run.Threads = 1
		var err error
		runs[i], err = Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
	}
	for i, e := range runs[0].Epochs {
		require.Equal(t, e.Loss, runs[1].Epochs[i].Loss)
		require.Equal(t, e.TestMAP, runs[1].Epochs[i].TestMAP)
	}
}

func TestBrokenImagesAreNamedAndLeftOut(t *testing.T) {
	dir := folder(t, 40)
	for _, name := range []string{"000.png", "004.png"} { // a training and a test picture
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), []byte("\x89PNG\r\n\x1a\n broken"), 0o644))
	}
	c := small(dir, "an")
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	res, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	require.Len(t, res.Broken, 2)
	require.Equal(t, "000.png", filepath.Base(res.Broken[0].Name))
	b, err := os.ReadFile(filepath.Join(c.Run.Dir, "broken.json"))
	require.NoError(t, err)
	require.Contains(t, string(b), "004.png")
}

func TestRunErrors(t *testing.T) {
	dir := folder(t, 20)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   string
		is     error
	}{
		"no data":          {func(c *config.Config) { c.Data.Path = "" }, "no data set", nil},
		"no such folder":   {func(c *config.Config) { c.Data.Path = filepath.Join(dir, "gone") }, "gone", os.ErrNotExist},
		"unknown method":   {func(c *config.Config) { c.Method.ID = "emm" }, `no loss is called "emm"; there are`, nil},
		"unknown backbone": {func(c *config.Config) { c.Model.Backbone = "vgg" }, `no backbone is called "vgg"`, nil},
		"unknown param": {func(c *config.Config) {
			c.Method.Params = map[string]float64{"alfa": 1}
		}, `no parameter "alfa"`, nil},
		"frozen, no file":  {func(c *config.Config) { c.Model.Mode = config.Frozen }, "--frozen needs --weights", nil},
		"negative epochs":  {func(c *config.Config) { c.Schedule.Epochs = -1 }, "epochs is -1", nil},
		"run below a file": {func(c *config.Config) { c.Run.Dir = filepath.Join(file, "run") }, "cannot be made", nil},
		"no weights file": {func(c *config.Config) {
			c.Model.Weights = filepath.Join(dir, "w.safetensors")
		}, "w.safetensors", os.ErrNotExist},
		"loss explodes": {func(c *config.Config) {
			c.Optim.LR, c.Optim.Name, c.Schedule.Epochs = 1e6, "sgd", 20
		}, "lower --lr", ErrNotFinite},
	} {
		t.Run(name, func(t *testing.T) {
			c := small(dir, "an")
			tc.change(&c)
			_, err := Run(context.Background(), c, RunOptions{})
			require.ErrorContains(t, err, tc.want)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
		})
	}
	c := small(dir, "an")
	c.Run.Dir, c.Schedule.Epochs = filepath.Join(t.TempDir(), "run"), 1
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	_, err = Run(context.Background(), c, RunOptions{})
	require.ErrorIs(t, err, rundir.ErrExists)
	require.NoError(t, os.WriteFile(filepath.Join(c.Run.Dir, "run.yaml"), []byte("data: x\nepoch: 3\n"), 0o644))
	_, err = Evaluate(context.Background(), c.Run.Dir, data.Test, Events{})
	require.ErrorContains(t, err, `there is no setting "epoch"; did you mean "epochs"?`)
}

func TestCancelEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := small(folder(t, 40), "an")
	c.Schedule.Epochs = 1000
	_, err := Run(ctx, c, RunOptions{Events: Events{Epoch: func(e EpochRecord) {
		if e.Epoch == 2 {
			cancel()
		}
	}}})
	require.ErrorIs(t, err, context.Canceled)
}

// With Deterministic an operator that may give other bits the next time fails, during training too; no method needs
// one.
func TestDeterministic(t *testing.T) {
	defer torch.SetDeterministic(torch.Deterministic())
	defer torch.SetCuDNNDeterministic(torch.CuDNNDeterministic())
	dir := folder(t, 40)
	for _, m := range []string{"an", "role", "en-scl", "lac"} {
		torch.SetDeterministic(false)
		c := small(dir, m)
		c.Run.Deterministic, c.Schedule.Epochs, c.Data.ImageSize = true, 1, 32
		c.Model.DecoderDim, c.Run.Dir = 16, filepath.Join(t.TempDir(), "run")
		var failed error
		_, err := Run(t.Context(), c, RunOptions{Events: Events{Step: func(Step) {
			failed = torch.Try(func() {
				torch.Call("aten::put_", torch.Zeros(torch.S(2)), torch.FromSlice([]int64{0, 0}), torch.Ones(torch.S(2)), false)
			})
		}}})
		require.NoError(t, err, m)
		require.ErrorContains(t, failed, "put_ does not have a deterministic implementation", m)
	}
}
