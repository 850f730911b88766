package command

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestBench reads the CSV of each subcommand: the columns are timm's, rates are times turned round, files grow.
func TestBench(t *testing.T) {
	read := func(text string) (rows []map[string]string) {
		all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		for _, r := range all[1:] {
			m := map[string]string{}
			for i, h := range all[0] {
				m[h] = r[i]
			}
			rows = append(rows, m)
		}
		return rows
	}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		return x
	}
	file := filepath.Join(t.TempDir(), "infer.csv")
	for range 2 {
		out, _, err := execute("bench", "infer", "small_cnn", "mobilenet_v2", "--size", "64", "--batch-size", "2", "--classes", "10", "--seconds", "0.01", "--results-file", file)
		require.NoError(t, err)
		rows := read(out)
		require.Len(t, rows, 2)
		require.Equal(t, "mobilenet_v2", rows[1]["model"])
		require.InEpsilon(t, 2000/number(rows[1]["infer_step_time"]), number(rows[1]["infer_samples_per_sec"]), 0.01)
		require.InDelta(t, 2.236682, number(rows[1]["param_count"]), 1e-3, "torchvision's with 10 classes")
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, read(string(kept)), 4)
	_, _, err = execute("bench", "data", "shapes", "--results-file", file)
	require.ErrorContains(t, err, "has other columns")
	_, _, err = execute("bench", "infer", "resnet")
	require.ErrorContains(t, err, "neither a run directory nor a network")

	out, _, err := execute("bench", "data", testroot.Shared(t, "data", "miml"), "--size", "32", "--limit", "40")
	require.NoError(t, err)
	rows := read(out)
	require.Len(t, rows, 2)
	require.Equal(t, []string{"40", "40"}, []string{rows[0]["images"], rows[1]["images"]})

	out, _, err = execute("bench", "train", "--data", testroot.Shared(t, "data", "miml"), "--frozen", "--features", testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"),
		"--methods", "an,em", "--rounds", "1", "--batch-size", "16")
	require.NoError(t, err)
	rows = read(out)
	require.Len(t, rows, 2)
	require.Equal(t, "em", rows[1]["method"])
	require.Equal(t, "16", rows[1]["train_batch_size"])
	require.Greater(t, number(rows[1]["train_samples_per_sec"]), 0.0)
}
