package train_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Folders of a later program are refused by name, also where they hold what this one cannot read; those of before have
// no format and are read (TestRunsOfEarlierVersions).
func TestFoldersOfLaterVersions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("run.yaml", "method: em\nsomething_new: 1\n")
	write("env.json", `{"format": 2, "module_version": "v9.1.0", "started": {"new": true}}`)
	_, err := rundir.Read(dir)
	require.ErrorIs(t, err, train.ErrData)
	require.ErrorContains(t, err, "is a run of gospml v9.1.0 (format 2)")
	write("env.json", `{"format": 1}`)
	_, err = rundir.Read(dir)
	require.ErrorContains(t, err, "something_new")

	write("model/config.json", `{"format": 3, "threshold": {"by": "class"}}`)
	_, err = model.ReadConfig(dir)
	require.ErrorIs(t, err, model.ErrData)
	require.ErrorContains(t, err, "has format 3 of a later gospml")

	require.NoError(t, model.Save(dir, model.Config{NumClasses: 1}, nil))
	b, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
	require.NoError(t, err)
	var got struct{ Format int }
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, 1, got.Format, "programs of format 1 read what is no int8 model")
}
