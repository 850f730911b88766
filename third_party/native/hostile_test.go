package native

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plant fills a folder with programs, modules and headers under the names that a set-up uses; each that runs leaves a
// file behind.
func plant(t *testing.T) (dir, evidence string) {
	t.Helper()
	dir, evidence = t.TempDir(), filepath.Join(t.TempDir(), "ran")
	for _, name := range []string{"cmake", "g++", "c++", "cc", "ninja", "make", "strip", "python3", "pip3", "apt-get", "ldconfig", "as", "ld"} {
		for _, folder := range []string{dir, filepath.Join(dir, "bin")} {
			writeFile(t, filepath.Join(folder, name), "#!/bin/sh\necho "+name+" >> "+evidence+"\nexit 1\n", 0o755)
		}
	}
	python := "open(" + fmt.Sprintf("%q", evidence) + ", 'a').write(__file__ + '\\n')\n"
	for _, name := range []string{"pip/__main__.py", "pip/__init__.py", "torch/__init__.py", "importlib.py", "sitecustomize.py", "usercustomize.py", "sys.py", "encodings/__init__.py"} {
		writeFile(t, filepath.Join(dir, name), python, 0o644)
	}
	writeFile(t, filepath.Join(dir, "turbojpeg.h"), "#error planted\n", 0o644)
	return dir, evidence
}

// A set-up in a folder that somebody else filled starts nothing of that folder, also where PATH, PYTHONPATH and the
// compiler's variables have empty entries, which mean the working folder.
func TestSetupRunsNothingOfTheWorkingFolder(t *testing.T) {
	tl := needTools(t)
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	w := newWorld(t)
	dir, evidence := plant(t)
	t.Chdir(dir)
	t.Setenv("PATH", ":.:bin:"+os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", ":.")
	for _, v := range []string{"CPATH", "COMPILER_PATH", "LIBRARY_PATH"} {
		t.Setenv(v, ":.")
	}

	_, err = w.setup(Options{})
	require.NoError(t, err, "the fake pip of the absolute folder is found behind the planted one")
	require.NoFileExists(t, evidence)

	// The same with a real Python: asking for pip and for torch, and the download.
	t.Setenv("PATH", ":.:bin:/usr/local/bin:/usr/bin:/bin")
	_, err = output(t.Context(), python, "-m", "pip", "--version")
	require.NoError(t, err)
	pythonTorch(t.Context())
	t.Setenv("PIP_NO_INDEX", "1")
	_, err = downloadWheel(t.Context(), &bytes.Buffer{}, []string{python, "-m", "pip"}, &w.lock.Wheels[0], t.TempDir())
	require.ErrorContains(t, err, "No matching distribution", "the real pip was asked")
	require.NoFileExists(t, evidence)

	// Compilers.
	found, err := findTools(t.Context(), &bytes.Buffer{}, w.lock, w.cache)
	require.NoError(t, err)
	require.Equal(t, tl.cmake, found.cmake)
	require.True(t, hasTurboJPEG(t.Context(), compiler()), "the planted header is not read")
	src, lib := smallProject(t, "int shown(int a) { return a; }\n"), filepath.Join(t.TempDir(), "lib", "key")
	require.NoError(t, compileWith(t, found, src, lib))
	require.NoFileExists(t, evidence)
}

// A folder that looks like a checkout of this module may bring a build folder, whose cache names programs.
func TestOnlyTheOwnCheckoutIsBuiltIn(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, extractSources(dir))
	writeFile(t, filepath.Join(dir, "go.mod"), "module "+modulePath+"\n", 0o644)
	t.Chdir(dir)
	checkout, err := usableCheckout(&bytes.Buffer{})
	require.NoError(t, err)
	require.Empty(t, checkout)
}

// The log of a failed build goes into the cache folder, and no link is followed on the way.
func TestFailedBuildFollowsNoLink(t *testing.T) {
	w := newWorld(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	precious := filepath.Join(w.dir, "precious")
	writeFile(t, precious, "precious", 0o644)
	for _, link := range []string{filepath.Join(tmp, fmt.Sprintf("gospml-%d-setup.log", os.Getuid())), filepath.Join(w.cache, failedLog)} {
		require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
		require.NoError(t, os.Symlink(precious, link))
	}
	work := filepath.Join(w.cache, "build"+tempMark+"1")
	require.NoError(t, os.MkdirAll(work, 0o755))
	require.NoError(t, os.Symlink(precious, filepath.Join(work, buildLog)))
	log, err := createLog(filepath.Join(work, buildLog))
	require.NoError(t, err)
	_, err = log.WriteString("error: it failed\n")
	require.NoError(t, err)
	require.NoError(t, log.Close())

	kept := keepLog(log.Name())
	require.Equal(t, filepath.Join(w.cache, failedLog), kept)
	b, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "error: it failed\n", string(b))
	b, err = os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "precious", string(b))
}

// What a killed set-up's programs started is stopped too: CMake starts ninja, ninja compilers, each in a process group
// of its own.
func TestNoCompilerOutlivesAKilledSetup(t *testing.T) {
	for name, script := range map[string]string{
		"shell": "sh -c 'sleep 600 & echo $! > PID; wait'; true",
		"ninja": "printf 'rule r\\n  command = echo $$$$ > PID; sleep 600\\nbuild x: r\\n' > DIR/build.ninja; ninja -C DIR; true",
	} {
		if _, err := exec.LookPath("ninja"); name == "ninja" && err != nil {
			continue
		}
		dir := t.TempDir()
		pidFile := filepath.Join(dir, "pid")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GOSPML_TEST_RUN="+strings.NewReplacer("PID", pidFile, "DIR", dir).Replace(script))
		require.NoError(t, cmd.Start())
		pid := waitForPid(t, pidFile)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if !waitUntil(func() bool { return !running(pid) }, 10*time.Second) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("%s: a grandchild outlived the set-up", name)
		}
	}
}

func waitUntil(done func() bool, patience time.Duration) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}
