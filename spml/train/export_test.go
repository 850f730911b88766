package train

import (
	"context"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/safetensors"
)

func TestExport(t *testing.T) {
	dir := folder(t, 30)
	c := small(dir, "em")
	c.Model.Backbone, c.Schedule.Epochs, c.Run.Dir = "mobilenet_v2", 1, filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)

	classes, err := evaluate.Calibrate(context.Background(), c.Run.Dir, Events{})
	require.NoError(t, err)
	require.Len(t, classes, 12)
	thresholds := make([]float64, 12)
	better := false
	for i, x := range classes {
		thresholds[i] = x.Threshold
		require.GreaterOrEqual(t, x.F1, x.F1Default, x.Class)
		better = better || x.F1 > x.F1Default
	}
	require.True(t, better)

	to := filepath.Join(t.TempDir(), "timm")
	require.NoError(t, Export(c.Run.Dir, to, ExportOptions{Form: ExportTimm, Thresholds: thresholds}))
	require.ErrorIs(t, Export(c.Run.Dir, to, ExportOptions{Form: ExportTimm}), fs.ErrExist)
	again := filepath.Join(t.TempDir(), "again")
	require.NoError(t, Export(to, again, ExportOptions{Form: ExportTimm}), "an exported folder is a model folder")
	one := filepath.Join(t.TempDir(), "one.safetensors")
	require.NoError(t, Export(c.Run.Dir, one, ExportOptions{Form: ExportSafetensors, Thresholds: thresholds}))
	var config *config.Error
	require.ErrorAs(t, Export(c.Run.Dir, one+"2", ExportOptions{Form: "onnx"}), &config)

	b, err := os.ReadFile(filepath.Join(to, "config.json"))
	require.NoError(t, err)
	var cfg map[string]any
	require.NoError(t, json.Unmarshal(b, &cfg))
	require.Equal(t, "mobilenetv2_100", cfg["architecture"])
	require.Equal(t, 1.0, cfg["pretrained_cfg"].(map[string]any)["crop_pct"])

	own, err := Load(c.Run.Dir, TaggerOptions{Workers: 1})
	require.NoError(t, err)
	defer own.Close()
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	names := ds.Images
	for _, path := range []string{to, again} {
		tagger, err := Load(path, TaggerOptions{Workers: 1})
		require.NoError(t, err)
		require.Equal(t, thresholds, tagger.Config.Thresholds)
		// The classes' F1 on validation with the marks of the tagger are those that Calibrate promised.
		tp, wrong := make([]int, 12), make([]int, 12)
		for _, row := range ds.Rows(data.Val) {
			photo, err := os.ReadFile(filepath.Join(dir, "images", filepath.Base(names[row])))
			require.NoError(t, err)
			want, err := own.Probabilities(context.Background(), photo)
			require.NoError(t, err)
			got, err := tagger.Probabilities(context.Background(), photo)
			require.NoError(t, err)
			require.Equal(t, want, got)
			labels, err := tagger.Tag(context.Background(), photo)
			require.NoError(t, err)
			for _, l := range labels {
				for i, n := range ds.Classes {
					if n == l.Name {
						positive := ds.LabelRow(row)[i] == 1
						if positive && l.Present {
							tp[i]++
						} else if positive != l.Present {
							wrong[i]++
						}
					}
				}
			}
		}
		for i, x := range classes {
			f1 := 2 * float64(tp[i]) / math.Max(1, float64(2*tp[i]+wrong[i]))
			require.InDelta(t, x.F1, f1, 1e-9, x.Class)
		}
		require.NoError(t, tagger.Close())
	}

	sd, meta, err := nn.LoadSafetensors(one)
	require.NoError(t, err)
	defer sd.Free()
	require.NotNil(t, sd["features.0.0.weight"])
	var mc ModelConfig
	require.NoError(t, json.Unmarshal([]byte(meta["config"]), &mc))
	require.Equal(t, thresholds, mc.Thresholds)
	var format *safetensors.FormatError
	require.NoError(t, os.WriteFile(filepath.Join(to, "model.safetensors"), []byte("cut"), 0o644))
	require.ErrorAs(t, Export(to, again+"2", ExportOptions{Form: ExportTimm}), &format)
	require.NoFileExists(t, again+"2")
}

// TestExportWithoutTimm names what timm cannot hold.
func TestExportWithoutTimm(t *testing.T) {
	c := small(folder(t, 10), "an")
	c.Schedule.Epochs, c.Run.Dir = 1, filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "to")
	require.ErrorContains(t, Export(c.Run.Dir, to, ExportOptions{Form: ExportTimm}), "small_cnn")
	require.NoError(t, Export(c.Run.Dir, to, ExportOptions{Form: ExportSafetensors}))
}
