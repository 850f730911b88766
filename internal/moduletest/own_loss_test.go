package moduletest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// A loss and a method written in another module pass their tests there, and their programs train with them and document
// them.
func TestOwnLossAndMethodFromAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command in another module")
	}
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	serve(t, proxy)

	s, out := elsewhere(t, dir, proxy, "my-loss", 40)
	require.Contains(t, out, "--- PASS: TestPolyAN/default/Gradient")
	require.Contains(t, out, "--- PASS: TestPolyAN/poly_an/exact/4x7")
	spml := filepath.Join(s.dir, "spml")
	require.Contains(t, s.must(spml, "loss", "list"), "poly-an")
	require.Contains(t, s.must(spml, "loss", "show", "POLY_AN"), "Leng et al. 2022")
	documented(t, s, "poly-an")
	out = s.must(spml, "train", "--data", "shapes", "--method", "poly-an", "--param", "epsilon=0.5", "--epochs", "1", "--run", "run", "--progress", "off")
	require.Contains(t, out, "best epoch 1")
	require.Contains(t, s.must(spml, "eval", "run"), "mAP")

	s, out = elsewhere(t, dir, proxy, "my-method", 120)
	require.Contains(t, out, "--- PASS: TestResume")
	spml = filepath.Join(s.dir, "spml")
	require.Contains(t, s.must(spml, "loss", "list"), "ensemble")
	documented(t, s, "ensemble")
	out = s.must(spml, "compare", "--data", "shapes", "--data-options", "train=40,val=20,test=20", "--methods", "an,ensemble", "--epochs", "1", "--seeds", "1", "--run", "cmp")
	require.Contains(t, out, "ensemble")
}

// elsewhere makes a module of an example's files, of at most so many lines, that takes this one from a proxy, runs its
// tests and builds its program, spml.
func elsewhere(t *testing.T, dir, proxy, example string, lines int) (s *shell, tests string) {
	mine := filepath.Join(dir, example)
	require.NoError(t, os.CopyFS(mine, os.DirFS(filepath.Join(testroot.Module(), "examples", example))))
	source, err := os.ReadFile(filepath.Join(mine, "main.go"))
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(source, []byte("\n")), lines, "lines of %s", example)

	// The packed sources are those of the working tree, and so are their libraries.
	s = &shell{t: t, dir: mine, env: []string{
		"GOPROXY=" + proxies(t, proxy), "GOSUMDB=off", "GOWORK=off", "GOPRIVATE=", "GONOPROXY=",
		"GOMODCACHE=" + filepath.Join(dir, "mod"), "GOFLAGS=-modcacherw -trimpath",
	}}
	s.must("go", "mod", "init", "example.com/mine")
	s.must("go", "get", packed.Path+"@"+packed.Version)
	s.must("go", "mod", "tidy")
	require.NotContains(t, s.must("go", "list", "-f", "{{.Dir}}", "-m", packed.Path), testroot.Module(), "the packed module is used")
	s.must("go", "vet", ".")
	tests = s.must("go", "test", "-v", ".")
	s.must("go", "build", "-o", "spml", ".")
	return s, tests
}

// documented looks for a loss in the pages that a program writes.
func documented(t *testing.T, s *shell, id string) {
	s.must(filepath.Join(s.dir, "spml"), "loss", "docs", "docs")
	page, err := os.ReadFile(filepath.Join(s.dir, "docs", "methods.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "\n## "+id+"\n")
	require.FileExists(t, filepath.Join(s.dir, "docs", "methods", id+".svg"))
}
