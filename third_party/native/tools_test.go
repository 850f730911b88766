package native

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingToolsAreNamedTogether(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CXX", "")
	_, err := findTools(t.Context(), &bytes.Buffer{})
	requireSentence(t, err, "cmake and a C++ compiler and ninja, which are not installed", "apt-get install -y cmake g++ ninja-build")
}

func TestMakeInsteadOfNinja(t *testing.T) {
	needTools(t)
	bin := t.TempDir()
	for _, name := range []string{"cmake", "c++", "as", "ld", "make"} {
		for _, d := range filepath.SplitList(os.Getenv("PATH")) {
			if _, err := os.Stat(filepath.Join(d, name)); err == nil {
				require.NoError(t, os.Symlink(filepath.Join(d, name), filepath.Join(bin, name)))
				break
			}
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("CXX", "")
	var out bytes.Buffer
	tl, err := findTools(t.Context(), &out)
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
