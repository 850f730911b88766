package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

func TestDataCommands(t *testing.T) {
	set := testroot.Testdata("data", "formats", "voc_lists")
	dir := t.TempDir()
	code, out, errs := spml(t, nil, "data", "show", set, "--json")
	require.Equal(t, exitOK, code, errs)
	var shown struct {
		Format  string
		Rows    []int `json:"rows_train_val_test"`
		Classes []string
		Samples []sample
		Notes   []string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &shown))
	require.Equal(t, "voc", shown.Format)
	require.Equal(t, []int{3, 1, 3}, shown.Rows)
	require.Len(t, shown.Samples, 5)
	require.Contains(t, strings.Join(shown.Notes, "\n"), "difficult objects only: they count as negative")

	code, _, errs = spml(t, nil, "data", "convert", set, filepath.Join(dir, "voc"), "--to", "voc")
	require.Equal(t, exitData, code)
	require.Contains(t, errs, "voc cannot hold the observed labels")
	require.NoDirExists(t, filepath.Join(dir, "voc"))
	code, out, errs = spml(t, nil, "data", "convert", set, filepath.Join(dir, "csv"), "--to", "csv")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "7 rows of 20 classes as csv")
	code, _, errs = spml(t, nil, "data", "convert", set, filepath.Join(dir, "csv"), "--to", "csv")
	require.Equal(t, exitOther, code)
	require.Contains(t, errs, "is not empty")
	a, err := os.ReadFile(filepath.Join(dir, "csv", "observed.csv"))
	require.NoError(t, err)
	code, _, errs = spml(t, nil, "data", "single-positive", set, filepath.Join(dir, "observed_1200.csv"))
	require.Equal(t, exitOK, code, errs)
	b, err := os.ReadFile(filepath.Join(dir, "observed_1200.csv"))
	require.NoError(t, err)
	require.Equal(t, string(a), string(b), "what Open draws and what the command draws are the same")
	code, _, errs = spml(t, nil, "data", "split", set, filepath.Join(dir, "split.csv"), "--val", "0.25", "--test", "0.4")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, errs, "3 train, 1 val, 3 test")
	code, out, errs = spml(t, nil, "data", "stat", set, "--svg", filepath.Join(dir, "s.svg"))
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "labels an image: 2.000")
	require.FileExists(t, filepath.Join(dir, "s.svg"))
	code, _, errs = spml(t, nil, "data", "check", set)
	require.Equal(t, exitOther, code)
	require.Contains(t, errs, "has no photos")
	code, _, errs = spml(t, nil, "data", "show", dir, "--format", "nonsense")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "choose from csv, cole")
	code, _, errs = spml(t, nil, "data", "show", t.TempDir())
	require.Equal(t, exitData, code, errs)
}

func TestDataCheck(t *testing.T) {
	dir := dataFolder(t, true)
	code, out, errs := spml(t, nil, "data", "check", dir, "--jobs", "2")
	require.Equal(t, exitData, code, errs)
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 2, "a.png is cut, b.png is missing: %s", out)
	var bad struct {
		Row           int
		Image, Reason string
	}
	require.NoError(t, json.Unmarshal([]byte(strings.Split(out, "\n")[1]), &bad))
	require.Equal(t, "b.png", bad.Image)
	require.Contains(t, bad.Reason, "no such file")
}
