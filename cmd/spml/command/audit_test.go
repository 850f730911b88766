package command

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestAudit goes from a run over decisions to new labels that are trained on.
func TestAudit(t *testing.T) {
	miml, features := testroot.Shared(t, "data", "miml"), testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy")
	dir := t.TempDir()
	run, out := filepath.Join(dir, "run"), filepath.Join(dir, "missing")
	_, _, err := execute("train", "--data", miml, "--frozen", "--features", features, "--method", "em", "--epochs", "3", "--run", run, "--progress", "off")
	require.NoError(t, err)
	for _, args := range [][]string{{}, {"--run", run}, {"--run", run, "--out", dir}, {"--run", run, "--out", out, "--weights", "oracle=1"}, {"--run", run, "--out", out, "--part", "some"}, {"export"}} {
		_, _, err := execute(append([]string{"audit"}, args...)...)
		require.Error(t, err)
		require.True(t, isUsage(err), "%v: %v", args, err)
	}
	stdout, stderr, err := execute("audit", "--run", run, "--out", out, "--top", "400", "--photos", "5")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(stderr, "without CLIP"), "the missing source is said once")
	require.Contains(t, stdout, "precision (%)")
	b, err := os.ReadFile(filepath.Join(out, "audit.json"))
	require.NoError(t, err)
	var rec struct {
		Pairs     int
		Precision []struct {
			By              string
			Average, Chance float64
		}
	}
	require.NoError(t, json.Unmarshal(b, &rec))
	require.Equal(t, 1600*4, rec.Pairs)
	require.Equal(t, "audit", rec.Precision[0].By)
	require.Greater(t, rec.Precision[0].Average, 6*rec.Precision[0].Chance)

	table, err := os.ReadFile(filepath.Join(out, "audit.csv"))
	require.NoError(t, err)
	recs, err := csv.NewReader(strings.NewReader(string(table))).ReadAll()
	require.NoError(t, err)
	require.Len(t, recs, 401)
	decisions := [][]string{{"image", "label", "decision"}}
	for i, r := range recs[1:] {
		decisions = append(decisions, []string{r[1], r[2], []string{"accept", "refuse", ""}[i%3]})
	}
	file := filepath.Join(dir, "decisions.csv")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, csv.NewWriter(f).WriteAll(decisions))
	require.NoError(t, f.Close())
	labels := filepath.Join(dir, "observed.csv")
	stdout, _, err = execute("audit", "import", out, file, "--labels", labels)
	require.NoError(t, err)
	require.Contains(t, stdout, "134 accepted, 133 refused, 0 positives taken away, 0 as they were, 133 undecided")
	got, err := os.ReadFile(labels)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(got))).ReadAll()
	require.NoError(t, err)
	count := map[string]int{}
	for _, r := range rows[1:] {
		for _, x := range r[1:] {
			count[x]++
		}
	}
	require.Equal(t, map[string]int{"1": 1600 + 134, "-1": 133, "0": 1600*4 - 134 - 133}, count)

	_, _, err = execute("audit", "import", out, file, "--labels", filepath.Join(dir, "set"))
	require.ErrorContains(t, err, "contradict the full labels", "a set cannot hold labels against its own full ones")
	_, _, err = execute("audit", "import", dir, file, "--labels", labels)
	require.ErrorContains(t, err, "no folder that spml audit wrote")
	_, _, err = execute("audit", "import", out, labels, "--labels", labels)
	require.ErrorContains(t, err, `no column "image"`)
	code, _, _ := spml(t, nil, "audit", "import", out, labels, "--labels", labels)
	require.Equal(t, exitData, code)
}
