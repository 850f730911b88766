package native

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gospml/gospml"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
	"path"
	"slices"
)

func TestFindCheckout(t *testing.T) {
	root := testroot.Module()
	wd, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, root, findCheckout(wd))
	require.Equal(t, root, findCheckout(root))

	other := t.TempDir()
	writeFile(t, filepath.Join(other, "go.mod"), "module example.com/service\n", 0o644)
	require.Empty(t, findCheckout(other))
	require.Empty(t, findCheckout(string(filepath.Separator)))
}

func TestDifferentSource(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, extractSources(dir))
	differs, err := differentSource(dir)
	require.NoError(t, err)
	require.Empty(t, differs)

	extra := filepath.Join(dir, "torch", "csrc", "zz_new.cpp")
	writeFile(t, extra, "", 0o644)
	differs, err = differentSource(dir)
	require.NoError(t, err)
	require.Equal(t, "torch/csrc/zz_new.cpp", differs)
	require.NoError(t, os.Remove(extra))

	cmake := filepath.Join(dir, "CMakeLists.txt")
	b, err := os.ReadFile(cmake)
	require.NoError(t, err)
	writeFile(t, cmake, string(b)+"\n", 0o644)
	differs, err = differentSource(dir)
	require.NoError(t, err)
	require.Equal(t, "CMakeLists.txt", differs)
}

func TestUsableCheckout(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	t.Chdir(dir)
	checkout, err := usableCheckout(&out)
	require.NoError(t, err)
	require.Empty(t, checkout)

	require.NoError(t, extractSources(dir))
	writeFile(t, filepath.Join(dir, "go.mod"), "module "+modulePath+"\n", 0o644)
	defer func(was func() string) { builtFrom = was }(builtFrom)
	builtFrom = func() string { return dir }
	t.Chdir("torch/csrc")
	checkout, err = usableCheckout(&out)
	require.NoError(t, err)
	require.Equal(t, dir, checkout)
	require.Empty(t, out.String())

	writeFile(t, filepath.Join(dir, "CMakeLists.txt"), "", 0o644)
	checkout, err = usableCheckout(&out)
	require.NoError(t, err)
	require.Empty(t, checkout)
	require.Contains(t, out.String(), "go run ./cmd/spml setup")
}

func TestBuildKey(t *testing.T) {
	require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{16}$`), BuildKey())
	require.Contains(t, Libraries(), "libgospml-cpu.so")
	require.Contains(t, Libraries(), "libgospml-image.so")
}

// The go command compiles a cgo package again when a header in its own folder changes, and no other.
func TestTableHeadersLieBesideTheirGoCode(t *testing.T) {
	include := regexp.MustCompile(`(?m)^#include "(.*)"`)
	found := 0
	for _, dir := range []string{"torch", "cuda", "data"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			if !bytes.Contains(b, []byte("\nimport \"C\"\n")) {
				return nil
			}
			require.NotRegexp(t, `(?m)^#cgo .*-I`, string(b), path)
			for _, m := range include.FindAllSubmatch(b, -1) {
				require.FileExists(t, filepath.Join(filepath.Dir(path), string(m[1])), path)
				found++
			}
			return nil
		}))
	}
	require.Greater(t, found, 5)
}

// What an embedded source includes by a path of ours is embedded too: an installed module has nothing else.
func TestWhatSourcesIncludeIsEmbedded(t *testing.T) {
	folders := []string{"spml/csrc", "torch/internal/abi", "cuda/internal/abi", "data/pixel", "third_party/gloo", "third_party/cudalibs"} // of CMakeLists.txt
	include := regexp.MustCompile(`(?m)^\s*#\s*include "(.*)"`)
	seen := 0
	require.NoError(t, eachSource(gospml.Sources, func(file string, b []byte) error {
		for _, m := range include.FindAllSubmatch(b, -1) {
			name := string(m[1])
			if name == "losses.h" { // written by CMake
				continue
			}
			seen++
			found := slices.ContainsFunc(append([]string{path.Dir(file)}, folders...), func(dir string) bool {
				_, err := fs.Stat(gospml.Sources, path.Join(dir, name))
				return err == nil
			})
			require.True(t, found, "%s includes %s", file, name)
		}
		return nil
	}))
	require.Greater(t, seen, 100)
}
