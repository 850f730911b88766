package native

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingToolsAreNamedTogether(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CXX", "")
	_, err := findTools(t.Context(), &bytes.Buffer{}, w.lock, w.cache)
	requireSentence(t, err, "a C++ compiler and libturbojpeg with its header, which are not installed", "apt-get install -y g++ libturbojpeg0-dev")
}

// pathOf makes a PATH of links to some of this machine's programs.
func pathOf(t *testing.T, programs ...string) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range programs {
		p, err := lookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(p, filepath.Join(bin, name)))
	}
	return bin
}

// CMake and ninja come as wheels where nobody may install packages, once.
func TestToolsAreFetched(t *testing.T) {
	needTools(t)
	w := newWorld(t)
	compilers := pathOf(t, "c++", "as", "ld", "sh", "ls", "grep", "cut", "mkdir", "cp", "uname")
	t.Setenv("CXX", "")
	t.Setenv("PATH", filepath.Join(w.dir, "bin")+":"+compilers)
	for range 2 {
		w.output.Reset()
		tl, err := findTools(t.Context(), &w.output, w.lock, w.cache)
		require.NoError(t, err)
		require.Equal(t, &tools{cmake: filepath.Join(w.cache, "tools-1/cmake/data/bin/cmake"), generator: "Ninja",
			maker: filepath.Join(w.cache, "tools-1/ninja-1.data/scripts/ninja")}, tl)
		require.Equal(t, 2, w.downloads())
	}
	require.Empty(t, w.output.String(), "the second time they are there")

	// A CMake that is too old is none.
	writeFile(t, filepath.Join(w.dir, "bin", "cmake"), "#!/bin/sh\necho cmake version 3.16.3\n", 0o755)
	tl, err := findTools(t.Context(), &w.output, w.lock, w.cache)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(w.cache, "tools-1/cmake/data/bin/cmake"), tl.cmake)
	writeFile(t, filepath.Join(w.dir, "bin", "cmake"), "#!/bin/sh\necho cmake version 3.18.0\n", 0o755)
	tl, err = findTools(t.Context(), &w.output, w.lock, w.cache)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(w.dir, "bin", "cmake"), tl.cmake)
}

// As root everything comes from apt-get, in one call.
func TestToolsAreInstalled(t *testing.T) {
	needTools(t)
	if os.Geteuid() != 0 {
		t.Log("not run: only root installs packages")
		return
	}
	w := newWorld(t)
	programs := pathOf(t, "c++", "as", "ld", "cmake", "ninja", "sh")
	log := fakeApt(t, "for p in cmake ninja c++; do ln -s "+programs+"/$p $(dirname $0)/; done")
	t.Setenv("CXX", "")
	bin := filepath.Dir(log)
	t.Setenv("PATH", bin+":"+pathOf(t, "as", "ld", "sh", "ln", "dirname"))
	tl, err := findTools(t.Context(), &w.output, w.lock, w.cache)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(bin, "cmake"), tl.cmake)
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "-q install -y --no-install-recommends cmake ninja-build g++ libturbojpeg0-dev\n", string(b))
	require.Contains(t, w.output.String(), "installing cmake ninja-build g++ libturbojpeg0-dev with apt-get")
	require.Zero(t, w.downloads())
}

func TestMakeInsteadOfNinja(t *testing.T) {
	needTools(t)
	w := newWorld(t)
	t.Setenv("PATH", pathOf(t, "cmake", "c++", "as", "ld", "make"))
	t.Setenv("CXX", "")
	var out bytes.Buffer
	tl, err := findTools(t.Context(), &out, w.lock, w.cache)
	require.NoError(t, err)
	require.Equal(t, "Unix Makefiles", tl.generator)
	require.Contains(t, out.String(), "building with make")
}

// fakeApt makes an apt-get that writes down what it was asked; its first installation fails for want of lists.
func fakeApt(t *testing.T, script string) (log string) {
	t.Helper()
	bin := t.TempDir()
	log = filepath.Join(bin, "log")
	writeFile(t, filepath.Join(bin, "apt-get"), "#!/bin/sh\necho \"$*\" >> "+log+"\n"+script, 0o755)
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	return log
}

func TestAptInstallUpdatesWhenNeeded(t *testing.T) {
	log := fakeApt(t, `case "$*" in *update*) touch "$0.updated";; *) [ -e "$0.updated" ] || { echo "E: Unable to locate package"; exit 100; };; esac`)
	require.NoError(t, aptInstall(&bytes.Buffer{}, "libturbojpeg0-dev"))
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	install := "-q install -y --no-install-recommends libturbojpeg0-dev\n"
	require.Equal(t, install+"-q update\n"+install, string(b))
}

func TestAptInstallFailure(t *testing.T) {
	fakeApt(t, `echo "Reading"; echo "E: Could not get lock"; echo "E: more"; exit 100`)
	requireSentence(t, aptInstall(&bytes.Buffer{}, "libturbojpeg0-dev"), "Could not get lock", "apt-get install -y libturbojpeg0-dev")
}

func TestHasTurboJPEG(t *testing.T) {
	needTools(t)
	require.True(t, hasTurboJPEG(t.Context(), compiler()))
	require.False(t, hasTurboJPEG(t.Context(), "/bin/false"))
}
