package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes/shapestest"
	"github.com/gospml/gospml/spml/config"
)

var tinyShapes = []string{"train", "--data", "shapes", "--data-options", "train=8,val=4,test=4", "--method", "em", "--epochs", "1", "--image-size", "32"}

// TestRunFolderIsMade: what a run that was given no folder took hours for is kept, in a folder that it names at the
// start.
func TestRunFolderIsMade(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, stderr := spml(t, nil, tinyShapes...)
	require.Zero(t, code, stderr)
	made, err := filepath.Glob("runs/shapes-em-2*")
	require.NoError(t, err)
	require.Len(t, made, 1)
	require.True(t, strings.HasPrefix(stderr, "run directory: "+made[0]+" "), stderr)
	require.Contains(t, out, "spml report "+made[0])
	require.FileExists(t, filepath.Join(made[0], "model", "model.safetensors"))

	code, _, stderr = spml(t, nil, append(tinyShapes, "--run=")...)
	require.Zero(t, code, stderr)
	made, _ = filepath.Glob("runs/*")
	require.Len(t, made, 1, "--run= keeps nothing")

	code, _, _ = spml(t, nil, "train", "--data", "nowhere", "--method", "em")
	require.NotZero(t, code)
	made, _ = filepath.Glob("runs/*")
	require.Len(t, made, 1, "a run that did not begin leaves no folder")
	require.NoError(t, os.RemoveAll("runs"))
	code, _, _ = spml(t, nil, "train", "--data", "nowhere", "--method", "em")
	require.NotZero(t, code)
	require.NoDirExists(t, "runs")
}

func TestRunFoldersDoNotClash(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, want := range []string{"runs/My-photos-em-2026-03-04-050607", "runs/My-photos-em-2026-03-04-050607-2", "runs/My-photos-em-2026-03-04-050607-3"} {
		got, err := newRunFolder(config.Config{Data: config.Data{Path: "x/My photos/"}, Method: config.Method{ID: "em"}}, now)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := newRunFolder(config.Config{Data: config.Data{Path: "/"}, Method: config.Method{ID: "em"}}, now)
	require.NoError(t, err)
	require.Equal(t, "runs/data-em-2026-03-04-050607", got)
}

// TestHintsAboutRuns: what stands in a person's way names the next command.
func TestHintsAboutRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	code, _, stderr := spml(t, nil, "train", "--run", "nope", "--resume")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "there is no run in nope to go on with (no run.yaml); to start one there, give --data and --method")
	require.NoDirExists(t, "nope")
	code, _, stderr = spml(t, nil, append(tinyShapes, "--run", "r")...)
	require.Zero(t, code, stderr)
	code, _, stderr = spml(t, nil, append(tinyShapes, "--run", "r")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "already holds a run")
	require.Contains(t, stderr, "go on with it by --resume")
	for _, zero := range []string{"--epochs", "--batch-size", "--image-size", "--lr"} {
		code, _, stderr = spml(t, nil, append(tinyShapes, "--run=", zero, "0")...)
		require.Equal(t, exitUsage, code, zero)
		require.Contains(t, stderr, "is 0, want more than 0", zero)
	}
	require.NoError(t, os.WriteFile("c.yaml", []byte("epochs: 0\n"), 0o644))
	code, _, stderr = spml(t, nil, "train", "--data", "shapes", "--method", "em", "--config", "c.yaml", "--run=")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "c.yaml: epochs is 0")
}

// TestTrainingFromScratchIsSaid before it takes hours.
func TestTrainingFromScratchIsSaid(t *testing.T) {
	dir := shapestest.Folder(t)
	code, _, stderr := spml(t, nil, "train", "--data", dir, "--method", "em", "--backbone", "small_cnn", "--image-size", "32", "--epochs", "1", "--run=")
	require.Zero(t, code, stderr)
	said := strings.Index(stderr, "no --weights: small_cnn begins with random numbers, which takes many photos and epochs (30 by default, here 1)")
	require.GreaterOrEqual(t, said, 0, stderr)
	require.Less(t, said, strings.Index(stderr, "epoch   1"))
	code, _, stderr = spml(t, nil, append(tinyShapes, "--run=")...)
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, "no --weights", "drawn pictures are made for it")
}
