package moduletest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// A loss written in another module passes the checks of losstest there, and its program trains with it and documents it.
func TestOwnLossFromAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command in another module")
	}
	dir := t.TempDir()
	proxy, mine := filepath.Join(dir, "proxy"), filepath.Join(dir, "mine")
	serve(t, proxy)
	example := filepath.Join(testroot.Module(), "examples", "my-loss")
	require.NoError(t, os.CopyFS(mine, os.DirFS(example)))
	source, err := os.ReadFile(filepath.Join(mine, "main.go"))
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(source, []byte("\n")), 40, "lines of a loss")

	// The packed sources are those of the working tree, and so are their libraries.
	s := &shell{t: t, dir: mine, env: []string{
		"GOPROXY=" + proxies(t, proxy), "GOSUMDB=off", "GOWORK=off", "GOPRIVATE=", "GONOPROXY=",
		"GOMODCACHE=" + filepath.Join(dir, "mod"), "GOFLAGS=-modcacherw -trimpath",
	}}
	s.must("go", "mod", "init", "example.com/mine")
	s.must("go", "get", packed.Path+"@"+packed.Version)
	s.must("go", "mod", "tidy")
	require.NotContains(t, s.must("go", "list", "-f", "{{.Dir}}", "-m", packed.Path), testroot.Module(), "the packed module is used")
	s.must("go", "vet", ".")
	out := s.must("go", "test", "-v", ".")
	require.Contains(t, out, "--- PASS: TestPolyAN/default/Gradient")
	require.Contains(t, out, "--- PASS: TestPolyAN/poly_an/exact/4x7")

	s.must("go", "build", "-o", "spml", ".")
	spml := filepath.Join(mine, "spml")
	require.Contains(t, s.must(spml, "loss", "list"), "poly-an")
	require.Contains(t, s.must(spml, "loss", "show", "POLY_AN"), "Leng et al. 2022")
	s.must(spml, "loss", "docs", "docs")
	page, err := os.ReadFile(filepath.Join(mine, "docs", "methods.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "\n## poly-an\n")
	require.FileExists(t, filepath.Join(mine, "docs", "methods", "poly-an.svg"))

	out = s.must(spml, "train", "--data", "shapes", "--method", "poly-an", "--param", "epsilon=0.5", "--epochs", "1", "--run", "run", "--progress", "off")
	require.Contains(t, out, "best epoch 1")
	require.Contains(t, s.must(spml, "eval", "run"), "mAP")
}
