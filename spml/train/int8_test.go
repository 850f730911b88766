package train

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/model"
)

// TestQuantize: a run's int8 folder predicts what its thresholds were tuned on, near the float32 model's probabilities,
// and whatever would take it for a float32 model says what it is.
func TestQuantize(t *testing.T) {
	if dir := os.Getenv("GOSPML_TEST_INT8"); dir != "" { // on a processor that does not multiply int8
		_, err := model.OpenTagger(dir, model.TaggerOptions{})
		require.ErrorContains(t, err, "no AVX512_VNNI")
		require.ErrorContains(t, err, "spml export RUN OUT without --quantize")
		return
	}
	ctx, dir := context.Background(), folder(t, 30)
	c := small(dir, "em")
	c.Model.Backbone, c.Schedule.Epochs, c.Run.Dir = "mobilenet_v2", 1, filepath.Join(t.TempDir(), "run")
	_, err := Run(ctx, c, RunOptions{})
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "int8")
	_, err = evaluate.Quantize(ctx, c.Run.Dir, to, 0, Events{})
	require.ErrorContains(t, err, "at least 1")
	q, err := evaluate.Quantize(ctx, c.Run.Dir, to, 7, Events{})
	if err != nil && strings.Contains(err.Error(), "no AVX512_VNNI") {
		t.Skip("this processor does not multiply int8; backbone's TestQuantizeRefuses sees that it says so")
	}
	require.NoError(t, err)
	require.Equal(t, 7, q.Photos)
	_, err = evaluate.Quantize(ctx, c.Run.Dir, to, 7, Events{})
	require.ErrorIs(t, err, fs.ErrExist)

	mc, err := model.ReadConfig(to)
	require.NoError(t, err)
	require.Equal(t, model.FolderFormat, mc.Format)
	require.Equal(t, 7, mc.Quantized.Photos)
	own, err := model.OpenTagger(c.Run.Dir, model.TaggerOptions{Workers: 1})
	require.NoError(t, err)
	defer own.Close()
	tagger, err := model.OpenTagger(to, model.TaggerOptions{Workers: 2})
	require.NoError(t, err)
	defer tagger.Close()
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	classes := len(q.Thresholds)
	tp, wrong, moved := make([]int, classes), make([]int, classes), false
	for _, row := range ds.Rows(data.Val) {
		photo, err := os.ReadFile(filepath.Join(dir, "images", filepath.Base(ds.Images[row])))
		require.NoError(t, err)
		want, err := own.Probabilities(ctx, photo)
		require.NoError(t, err)
		got, err := tagger.Probabilities(ctx, photo)
		require.NoError(t, err)
		for i, p := range got {
			require.InDelta(t, want[i], p, 0.05)
			moved = moved || p != want[i]
			switch present, positive := tagger.Present(i, p), ds.Labels[row*classes+i] == 1; {
			case present && positive:
				tp[i]++
			case present != positive:
				wrong[i]++
			}
		}
	}
	require.True(t, moved, "these are the bits of float32")
	for i, x := range q.Thresholds {
		if tp[i] > 0 {
			require.InDelta(t, x.F1, 2*float64(tp[i])/float64(2*tp[i]+wrong[i]), 1e-9, x.Class)
		}
	}

	_, err = model.Open(to)
	require.ErrorContains(t, err, "holds the int8 form of a model, which predicts and nothing else")
	require.ErrorIs(t, Export(to, to+"-timm", ExportOptions{Form: ExportTimm}), ErrData)
	for words, o := range map[string]model.TaggerOptions{
		"not in fp32": {Precision: "fp32"}, "not in bf16": {Precision: "bf16"}, "not for cuda": {Device: "cuda"},
	} {
		_, err = model.OpenTagger(to, o)
		require.ErrorContains(t, err, words)
	}
	_, err = model.OpenTagger(c.Run.Dir, model.TaggerOptions{Precision: "int8"})
	require.ErrorContains(t, err, "none of fp32, bf16")
	if runtime.GOARCH == "amd64" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestQuantize$")
		cmd.Env = append(os.Environ(), "GOSPML_CPU=avx2", "GOSPML_TEST_INT8="+to)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.Remove(filepath.Join(to, model.ShiftsFile)))
	_, err = model.OpenTagger(to, model.TaggerOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}
