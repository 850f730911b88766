package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/compare"
)

// TestCompareTunes: the budget is said first and last, the table says what was chosen, and numbers from elsewhere stand
// beside ours.
func TestCompareTunes(t *testing.T) {
	dir := t.TempDir()
	beside := filepath.Join(dir, "published.csv")
	require.NoError(t, os.WriteFile(beside, []byte("method,mean,source\nan-ls,50,a paper\n"), 0o644))
	base := []string{"compare", "--data", "shapes", "--data-options", "train=64,val=16,test=16", "--image-size", "16",
		"--epochs", "1", "--methods", "an,an-ls,em:alpha=0.3", "--progress", "plain"}
	args := append(base, "--tune", "--tune-seeds", "1", "--seeds", "1", "--grid", "lr=1e-3,1e-2", "--beside", beside,
		"--run", filepath.Join(dir, "cmp"))

	// Each is tried as it is; then an by two rates, an-ls by these and three coefficients, em by the rates: its weight
	// was given.
	budget := "budget: up to "
	code, stdout, stderr := spml(t, nil, append(args, "--dry-run")...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, budget)
	require.Contains(t, stdout, "an-ls lr=0.01 ls_coef=0.3:")
	require.NotContains(t, stdout, "alpha=0.9")
	require.Regexp(t, `no_test:\s+true`, stdout)
	require.NoDirExists(t, filepath.Join(dir, "cmp"))

	code, stdout, stderr = spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, budget)
	require.Regexp(t, `spent: 13 settings, 13 runs .* on validation; 3 runs .* on test`, stderr)
	require.Contains(t, stdout, "| method | chosen | val mAP | of its own settings | tried |")
	require.Contains(t, stdout, "| an-ls | test mAP | ")
	b, err := os.ReadFile(filepath.Join(dir, "cmp", "table.json"))
	require.NoError(t, err)
	var table compare.Table
	require.NoError(t, json.Unmarshal(b, &table))
	tried := map[string]int{}
	for _, r := range table.Rows {
		tried[r.Name] = r.Selection.Tried
	}
	require.Equal(t, map[string]int{"an": 3, "an-ls": 7, "em:alpha=0.3": 3}, tried)
	require.Contains(t, table.Rows[1].Selection.Source, "section C.3")

	code, _, stderr = spml(t, nil, append(base, "--grid", "lr=1", "--run", filepath.Join(dir, "x"))...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--grid belongs to --tune")
	code, _, stderr = spml(t, nil, append(base, "--tune", "--grid", "gr:lr=1", "--run", filepath.Join(dir, "x"))...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "gr is none of the methods")
	code, _, stderr = spml(t, nil, append(base, "--tune", "--tune-seeds", "1,", "--seeds", "1,2", "--run",
		filepath.Join(dir, "x"))...)
	require.NotZero(t, code)
	require.Contains(t, stderr, "seed 1 is to choose settings and to test them")
}

// TestGridOfADataSet: a data set with a grid of its own is tuned over it.
func TestGridOfADataSet(t *testing.T) {
	v := compare.Variant{Name: "vlpl", Set: map[string]any{"method": "vlpl"}}
	for name, want := range map[string]string{"cub": "on CUB", "voc": "CUB has thresholds of its own"} {
		g, err := methodGrid(v, map[string]any{"data_set": name}, nil)
		require.NoError(t, err)
		require.Contains(t, g.Source, want)
		require.Len(t, g.Stages[0], 15)
	}
}
