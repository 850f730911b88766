package compare

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

func TestDiff(t *testing.T) {
	dir := t.TempDir()
	miml, features := testroot.Shared(t, "data", "miml"), testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy")
	run := func(name string, set map[string]any) string {
		m := map[string]any{
			"data":       miml,
			"features":   features,
			"mode":       config.Frozen,
			"method":     "an",
			"epochs":     int64(2),
			"save_every": "off",
			"run":        filepath.Join(dir, name),
		}
		for k, v := range set {
			m[k] = v
		}
		c, err := config.FromSettings(m)
		require.NoError(t, err)
		_, err = train.Run(t.Context(), c, train.RunOptions{})
		require.NoError(t, err)
		return filepath.Join(dir, name)
	}
	a, b := run("a", nil), run("b", map[string]any{"method": "em", "epochs": int64(3)})

	d, err := Diff(a, b, 200)
	require.NoError(t, err)
	require.Equal(t, []Setting{{"method", "an", "em"}, {"epochs", "2", "3"}}, d.Settings)
	require.Empty(t, d.Environment)
	require.Len(t, d.EpochsB, 3)
	require.InDelta(t, d.BestB.TestMAP-d.BestA.TestMAP, d.MAP.Difference.Value, 1e-9)
	require.Len(t, d.Classes, 5)
	record, err := rundir.ReadRecord(b)
	require.NoError(t, err)
	ds, err := record.Config.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	scores, err := rundir.ReadTestScores(b)
	require.NoError(t, err)
	ap, err := scores.PerClass(ds, ds.Labels)
	require.NoError(t, err)
	var sum float64
	for i, c := range d.Classes {
		if i > 0 {
			require.LessOrEqual(t, abs(c.Difference.Value), abs(d.Classes[i-1].Difference.Value))
		}
		require.LessOrEqual(t, c.Difference.Low, c.Difference.High)
		for k, name := range ds.Classes {
			if name == c.Class {
				require.InDelta(t, 100*ap[k], c.B, 1e-9)
			}
		}
		sum += c.B
	}
	require.InDelta(t, 100*metric.Mean(ap), sum/5, 1e-9)
	var out bytes.Buffer
	require.NoError(t, d.Write(&out, 2))
	require.Contains(t, out.String(), "method")
	require.Contains(t, out.String(), "and 3 classes that changed less")

	same, err := Diff(a, a, 50)
	require.NoError(t, err)
	require.Empty(t, same.Settings)
	require.Zero(t, same.MAP.Difference.High)
	require.Equal(t, 1.0, same.MAP.P)

	// A run that left the test part alone has no test mAP, and nothing says 0.
	hidden := run("hidden", map[string]any{"no_test": true})
	for _, pair := range [][2]string{{a, hidden}, {hidden, hidden}} {
		d, err := Diff(pair[0], pair[1], 50)
		require.NoError(t, err)
		out.Reset()
		require.NoError(t, d.Write(&out, 0))
		require.Contains(t, out.String(), "n/a")
		require.NotContains(t, out.String(), "0.00")
		require.Contains(t, out.String(), "a run left it alone")
	}

	env := filepath.Join(b, "env.json")
	text, err := os.ReadFile(env)
	require.NoError(t, err)
	changed := strings.Replace(string(text), record.Environment.DataSHA256, strings.Repeat("0", 64), 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(env, []byte(changed), 0o644))
	d, err = Diff(a, b, 50)
	require.NoError(t, err)
	require.Nil(t, d.MAP)
	require.Equal(t, "the runs are on other data, labels or splits", d.WhyNot)

	_, err = Diff(a, dir, 0)
	require.ErrorContains(t, err, "is no run directory")
}

func abs(x float64) float64 { return max(x, -x) }
