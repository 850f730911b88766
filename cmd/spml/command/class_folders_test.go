package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// classFolders are n drawn pictures in folders that name one label of each.
func classFolders(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	ds, err := shapes.New(3, n, 0, 0)
	require.NoError(t, err)
	for i := range n {
		b, err := ds.Source.(data.RawSource).ReadFile(i, nil)
		require.NoError(t, err)
		for c, y := range ds.LabelRow(i) {
			if y == 1 {
				class := filepath.Join(dir, fmt.Sprintf("class%02d", c))
				require.NoError(t, os.MkdirAll(class, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(class, fmt.Sprintf("%03d.png", i)), b, 0o644))
				break
			}
		}
	}
	return dir
}

// TestClassFoldersAreScored: folders of photos, one label each, show a score of the observed labels on a drawn part,
// choose the epoch by it, and say n/a where nothing can be said: on the screen, in the files and on the page.
func TestClassFoldersAreScored(t *testing.T) {
	dir, run := classFolders(t, 60), filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--data", dir, "--method", "em", "--backbone", "small_cnn", "--image-size", "32", "--epochs", "2", "--threads", "1", "--run"}
	code, out, stderr := spml(t, nil, append(args, run)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "48 train, 12 val, 0 test")
	require.Contains(t, stderr, "val mAP is against the observed labels, where what is not observed counts as absent")
	require.Contains(t, stderr, "test mAP: n/a, because no test row has full labels")
	epochs := regexp.MustCompile(`epoch +\d+ +loss .* val mAP +([\d.]+) +test mAP +n/a`).FindAllStringSubmatch(stderr, -1)
	require.Len(t, epochs, 2, stderr)
	require.Contains(t, out, "test mAP n/a")
	for _, e := range epochs {
		require.NotEqual(t, "0.00", e[1])
	}
	b, err := os.ReadFile(filepath.Join(run, "metrics.csv"))
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		cells := strings.Split(line, ",")
		require.NotEmpty(t, cells[2], "validation")
		require.Empty(t, cells[3], "test")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	code, _, stderr = spml(t, nil, "report", run, "--out", page)
	require.Zero(t, code, stderr)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "n/a")
	require.NotContains(t, string(html), "0.00 %")
	require.Contains(t, string(html), "against observed labels; chose that epoch")

	// --val-labels single is the same here; without a validation part it is n/a too.
	single := filepath.Join(t.TempDir(), "single")
	code, _, stderr = spml(t, nil, append(args, single, "--val-labels", "single")...)
	require.Zero(t, code, stderr)
	require.Equal(t, epochs, regexp.MustCompile(`epoch +\d+ +loss .* val mAP +([\d.]+) +test mAP +n/a`).FindAllStringSubmatch(stderr, -1))
	code, out, stderr = spml(t, nil, append(args, "", "--data-options", "no-validation=true", "--epochs", "1")...)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "val mAP n/a, test mAP n/a")

	// A comparison is made on what there is.
	cmp := filepath.Join(t.TempDir(), "cmp")
	rows := []string{"compare", "--data", dir, "--backbone", "small_cnn", "--image-size", "32", "--methods", "an,em", "--seeds", "1", "--epochs", "1", "--run", cmp}
	code, out, stderr = spml(t, nil, rows...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^\| em \| \d+\.\d\d \| n/a \| 1 \| `, out)
	require.Contains(t, out, "test mAP is n/a")
	table, err := os.ReadFile(filepath.Join(cmp, "table.csv"))
	require.NoError(t, err)
	require.Regexp(t, `(?m),em,1200,,,,,,,,,,,1,\d+\.\d\d,\d+\.\d{4},0\.0000,\d+\.\d{4},$`, string(table))
	code, _, stderr = spml(t, nil, "report", cmp, "--out", page)
	require.Zero(t, code, stderr)
	html, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "Validation mAP, %")
	require.NotContains(t, string(html), "0.00 %")
	code, out, stderr = spml(t, nil, append(rows, "--data-options", "no-validation=true", "--run", filepath.Join(t.TempDir(), "none"))...)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "| em | n/a | n/a | 1 |")

	// split.csv as data split writes it is read.
	code, _, stderr = spml(t, nil, "data", "split", dir, filepath.Join(dir, "split.csv"), "--val", "0.25", "--test", "0.5")
	require.Zero(t, code, stderr)
	code, _, stderr = spml(t, nil, append(args, "", "--epochs", "1")...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `: \d+ classes, 2[23] train, [78] val, 30 test`, stderr)
}
