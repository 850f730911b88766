package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two models' bars stand side by side, labels that a data set's photo has come first, and what does not go together is refused.
func TestPredictPage(t *testing.T) {
	dir, set := t.TempDir(), tinySet(t, 12)
	a, b, page := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "page.html")
	for run, method := range map[string]string{a: "an", b: "em"} {
		code, _, stderr := spml(t, nil, "train", "--data", set, "--method", method, "--backbone", "small_cnn", "--image-size", "32", "--epochs", "1", "--run", run)
		require.Zero(t, code, stderr)
	}
	code, _, stderr := spml(t, nil, "predict", a, "--compare", b, "--html", page, "--data", set)
	require.Zero(t, code, stderr)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, 20, strings.Count(string(html), `<figure class="card">`))
	require.Equal(t, 2*strings.Count(string(html), `<span class="stack">`), strings.Count(string(html), `<span class="line`), "two bars a label")
	require.True(t, strings.Contains(string(html), `<li class="true">`))
	photos, names := photoFolder(t)
	code, _, stderr = spml(t, nil, "predict", a, "--html", page, photos)
	require.NotZero(t, code)
	require.Contains(t, stderr, "e.jpg")
	html, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, len(names), strings.Count(string(html), `<figure class="card">`), "the others are there")
	require.False(t, strings.Contains(string(html), `<li class="true">`), "nothing is known of them")
	code, _, stderr = spml(t, nil, "predict", a, "--compare", b, photos)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--html")

	// The report and a figure come from the same runs.
	code, stdout, stderr := spml(t, nil, "report", a, b, "--out", page, "--photos", "1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "page.html")
	code, stdout, stderr = spml(t, nil, "plot", "em:fig7", a, b, "--out", filepath.Join(dir, "f.svg"))
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "f.svg")
}
