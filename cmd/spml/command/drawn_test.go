package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/model"
)

// TestMainPathsOnDrawnPictures takes the way of a user with what is in the repository, no data root: look at data,
// train, score, label odd and broken photos, tag in a program, and label by the built-in CLIP.
func TestMainPathsOnDrawnPictures(t *testing.T) {
	photos, run := testroot.Testdata("pictures", "photos"), filepath.Join(t.TempDir(), "run")
	succeed := func(args ...string) string {
		code, stdout, stderr := spml(t, nil, args...)
		require.Zero(t, code, "%v: %s", args, stderr)
		return stdout
	}
	require.Contains(t, succeed("data", "show", photos), "20")
	out := succeed("train", "--data", photos, "--backbone", "small_cnn", "--image-size", "32", "--method", "role", "--epochs", "2", "--batch-size", "4", "--threads", "1", "--run", run)
	require.Contains(t, out, "best epoch ")
	var report struct {
		MAP float64 `json:"map"`
	}
	require.NoError(t, json.Unmarshal([]byte(succeed("eval", run, "--json")), &report))
	require.True(t, report.MAP > 0 && report.MAP <= 100, report.MAP)

	b, err := os.ReadFile(testroot.Testdata("pictures", "pillow.json"))
	require.NoError(t, err)
	var golden struct {
		Files map[string]struct{ Error string }
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	awkward := testroot.Testdata("pictures", "awkward")
	code, out, stderr := spml(t, nil, "predict", run, awkward, "--json")
	require.Equal(t, exitData, code, stderr)
	labelled := 0
	for name, want := range golden.Files {
		if want.Error != "" {
			require.Contains(t, stderr, name, "a broken photo is named")
			continue
		}
		labelled++
		require.Contains(t, out, name)
	}
	require.Equal(t, labelled, strings.Count(out, "\n"), "each good photo has a line")

	tagger, err := model.OpenTagger(run, model.TaggerOptions{})
	require.NoError(t, err)
	defer tagger.Close()
	for name, want := range golden.Files {
		b, err := os.ReadFile(filepath.Join(awkward, name))
		require.NoError(t, err)
		labels, err := tagger.Tag(context.Background(), b)
		if want.Error != "" {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, labels, 12, name)
	}

	labels := filepath.Join(t.TempDir(), "labels.npy")
	succeed("pseudo-label", "--method", "vlpl", "--clip", "builtin", "--data", photos, "--out", labels)
	require.FileExists(t, labels)
}
