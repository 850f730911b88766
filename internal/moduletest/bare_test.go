//go:build linux

package moduletest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/third_party/native"
)

// hidden are programs that set-up gets itself or does without.
const hidden = "cmake ninja make apt-get"

// A machine with Go, a C++ compiler and pip alone can set up: CMake and ninja come as wheels and build the libraries.
// The short form looks for the tools only (TestToolsAreFetched of third_party/native has a pip of its own); the full
// form fetches and builds.
func TestSetupWithoutCMake(t *testing.T) {
	torch, err := native.FindTorch()
	require.NoError(t, err)
	dir := t.TempDir()
	s := &shell{t: t, dir: dir, env: []string{"GOSPML_CACHE=" + filepath.Join(dir, "cache"), "GOSPML_LIB=", "LIBTORCH=" + torch.Dir}}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "spml"), "./cmd/spml")
	build.Dir = testroot.Module()
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	// Beside this root nothing changes: the mounts belong to the command alone.
	without := func(script string) []string {
		hide := `for p in ` + hidden + `; do while f=$(command -v $p); do mount --bind /dev/null "$f" || exit 9; done; done; `
		return []string{"--mount", "--map-root-user", "sh", "-c", hide + script}
	}
	require.Empty(t, s.must("unshare", without(`for p in `+hidden+`; do command -v $p; done; true`)...), "what is hidden is not found")
	if !testroot.Nightly() {
		// Without an index the wheels are asked for and not found: nothing is taken from elsewhere.
		s.env = append(s.env, "PIP_NO_INDEX=1")
		said, err := s.run("unshare", without("exec ./spml setup")...)
		require.Error(t, err)
		require.Contains(t, said, "fetching tools-cmake-")
		require.Contains(t, said, "pip could not download cmake")
		return
	}
	said := s.must("unshare", without("exec ./spml setup")...)
	require.Contains(t, said, "fetching tools-cmake-")
	require.Contains(t, said, "(Ninja, ")
	for _, name := range native.Libraries() {
		require.FileExists(t, filepath.Join(dir, "cache", "lib", native.BuildKey(), name))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "cache", "lib"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the libraries and their lock file")
}
