package native

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// smallProject writes a CMake project that makes libraries with the names of ours and returns its folder.
func smallProject(t *testing.T, code string) string {
	t.Helper()
	dir := t.TempDir()
	cmake := "cmake_minimum_required(VERSION 3.18)\nproject(small LANGUAGES C)\nset(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)\n"
	for _, name := range Libraries() {
		cmake += fmt.Sprintf("add_library(%s SHARED a.c)\n", strings.TrimSuffix(strings.TrimPrefix(name, "lib"), ".so"))
	}
	writeFile(t, filepath.Join(dir, "CMakeLists.txt"), cmake, 0o644)
	writeFile(t, filepath.Join(dir, "a.c"), code, 0o644)
	return dir
}

// compileWith runs what `build` runs for a checkout.
func compileWith(t *testing.T, tl *tools, src, lib string) error {
	t.Helper()
	dir := filepath.Join(src, "build")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, resetBuild(dir, src, tl.generator, false))
	if err := (&builder{tools: tl, torch: &Torch{Dir: "/no/torch"}, libraries: Libraries(), jobs: 2}).runCMake(t.Context(), &bytes.Buffer{}, src, dir); err != nil {
		return err
	}
	return installLibs(t.Context(), filepath.Join(dir, "lib"), lib, Libraries())
}

func needTools(t *testing.T) *tools {
	t.Helper()
	l, err := embeddedLock()
	require.NoError(t, err)
	cache, err := CacheDir()
	require.NoError(t, err)
	tl, err := findTools(t.Context(), os.Stderr, l, cache)
	require.NoError(t, err)
	return tl
}

func TestBuildInstallsStrippedLibraries(t *testing.T) {
	tl := needTools(t)
	src, lib := smallProject(t, "static int hidden_helper(int a) { return a + 1; }\nint shown(int a) { return hidden_helper(a); }\n"), filepath.Join(t.TempDir(), "lib", "key")
	require.NoError(t, compileWith(t, tl, src, lib))
	require.True(t, installed(lib, Libraries()))
	entries, err := os.ReadDir(lib)
	require.NoError(t, err)
	require.Len(t, entries, len(Libraries()), "no temporary files are left")
	out, err := exec.Command("nm", filepath.Join(lib, Libraries()[0])).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "no symbols")
	out, err = exec.Command("nm", "-D", filepath.Join(lib, Libraries()[0])).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), " shown")

	// A moved checkout has a build folder that CMake would refuse.
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(src, moved))
	require.NoError(t, compileWith(t, tl, moved, lib))
}

func TestBuildFailureIsOneSentence(t *testing.T) {
	tl := needTools(t)
	src := smallProject(t, "int shown(void) { return undeclared_name; }\n")
	err := compileWith(t, tl, src, t.TempDir())
	requireSentence(t, err, "error:", "undeclared_name", filepath.Join(src, "build", buildLog))

	writeFile(t, filepath.Join(src, "CMakeLists.txt"), "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES C)\nmessage(FATAL_ERROR \"no such thing\")\n", 0o644)
	err = compileWith(t, tl, src, t.TempDir())
	requireSentence(t, err, "CMake Error", "no such thing")
}

// A half-installed folder is not taken for a finished one.
func TestInstalledWantsEveryLibrary(t *testing.T) {
	dir := t.TempDir()
	require.False(t, installed(dir, Libraries()))
	for _, name := range Libraries() {
		writeFile(t, filepath.Join(dir, name), "x", 0o755)
	}
	require.True(t, installed(dir, Libraries()))
	require.NoError(t, os.Remove(filepath.Join(dir, Libraries()[0])))
	require.False(t, installed(dir, Libraries()))
}

func TestPruneBuilds(t *testing.T) {
	dir := t.TempDir()
	for i := range keptBuilds + 3 {
		d := filepath.Join(dir, fmt.Sprintf("key%d", i))
		writeFile(t, filepath.Join(d, "libx.so"), "x", 0o755)
		when := time.Now().Add(-time.Duration(i) * usedBuilds / (keptBuilds + 1)) // the last two are older than a day
		require.NoError(t, os.Chtimes(d, when, when))
	}
	last := filepath.Join(dir, fmt.Sprintf("key%d", keptBuilds+2))
	noteUse(last)
	require.NoError(t, pruneBuilds(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, keptBuilds+2, "the newest, one more of this day, and the one that was used")
	for i := range keptBuilds + 1 {
		require.DirExists(t, filepath.Join(dir, fmt.Sprintf("key%d", i)))
	}
	require.DirExists(t, last)
}

func TestDefaultJobs(t *testing.T) {
	require.Positive(t, defaultJobs())
	require.Positive(t, availableMemory())
}

// What is built here runs on RHEL 9 and Ubuntu 22.04: glibc 2.34, the libstdc++ of GCC 11.
func TestLibrariesRunOnOlderSystems(t *testing.T) {
	for _, name := range Libraries() {
		path, err := FindLib(name)
		require.NoError(t, err)
		requireOldSystem(t, path)
	}
	torch, err := FindTorch()
	require.NoError(t, err)
	for _, path := range torch.Preload() {
		requireOldSystem(t, path)
	}
}

// requireOldSystem reads which versions of the system's symbols a library imports.
func requireOldSystem(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	needs, err := f.DynamicVersionNeeds()
	require.NoError(t, err)
	require.NotEmpty(t, needs, path)
	for _, n := range needs {
		for _, d := range n.Needs {
			for prefix, most := range map[string][]int{"GLIBC_": {2, 34}, "GLIBCXX_": {3, 4, 29}, "CXXABI_": {1, 3, 13}, "GCC_": {7, 0, 0}} {
				if v := versionOf(d.Dep, prefix); v != nil {
					require.LessOrEqual(t, slices.Compare(v, most), 0, "%s wants %s of %s", path, d.Dep, n.Name)
				}
			}
		}
	}
}

func TestCxxRuntime(t *testing.T) {
	own, system := t.TempDir(), t.TempDir()
	for _, name := range []string{"libstdc++.so.6", "libgcc_s.so.1"} {
		writeFile(t, filepath.Join(own, name), "own", 0o755)
	}
	ours := []string{filepath.Join(own, "libgcc_s.so.1"), filepath.Join(own, "libstdc++.so.6")}
	require.Equal(t, ours, cxxRuntime(own, []string{system}), "the system has none")
	require.Equal(t, ours, cxxRuntime(own, nil))
	writeFile(t, filepath.Join(system, "libstdc++.so.6"), "no library", 0o755)
	require.Equal(t, ours, cxxRuntime(own, []string{system}))
	old := filepath.Join(t.TempDir(), "libstdc++.so.6")
	defines := func(version string) {
		script := filepath.Join(filepath.Dir(old), "map")
		writeFile(t, script, version+" { global: *; };\n", 0o644)
		cmd := exec.Command("cc", "-shared", "-nostdlib", "-xc", "-", "-Wl,--version-script="+script, "-o", old)
		cmd.Stdin = strings.NewReader("int x;\n")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	defines("GLIBCXX_3.4.28")
	require.Equal(t, ours, cxxRuntime(own, []string{filepath.Dir(old), system}), "the first is the one that the loader takes")
	defines("GLIBCXX_3.4.29")
	require.Equal(t, []string{old}, cxxRuntime(own, []string{filepath.Dir(old), system}))
}

// What a stopped program started is stopped too: ninja's compilers, for instance.
func TestRunStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	done := make(chan error)
	go func() { done <- run(ctx, exec.Command("sh", "-c", "sleep 60 & echo $! > "+pidFile+"; wait")) }()
	pid := waitForPid(t, pidFile)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Eventually(t, func() bool { return !running(pid) }, 10*time.Second, 10*time.Millisecond)
}

// Of two set-ups of the same sources one builds and the other waits and takes what was built; other sources do not
// wait.
func TestEqualSourcesAreBuiltOnce(t *testing.T) {
	tl, libs := needTools(t), t.TempDir()
	build := func(src, key string) (bool, error) {
		b := builder{tools: tl, torch: &Torch{Dir: "/no/torch"}, checkout: src, libraries: Libraries(), jobs: 1}
		return b.build(t.Context(), io.Discard, filepath.Join(libs, key))
	}
	one, two := smallProject(t, "int shown(int a) { return a; }\n"), smallProject(t, "int shown(int a) { return a; }\n")
	var built atomic.Int32
	var group sync.WaitGroup
	for _, src := range []string{one, two} {
		group.Go(func() {
			did, err := build(src, "same")
			if assert.NoError(t, err) && did {
				built.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, built.Load())
	require.True(t, installed(filepath.Join(libs, "same"), Libraries()))

	unlock, err := lockFile(t.Context(), io.Discard, filepath.Join(libs, "same.lock"))
	require.NoError(t, err)
	defer unlock()
	did, err := build(two, "other")
	require.NoError(t, err)
	require.True(t, did)
}

func TestNativeSetIsPartOfTheKey(t *testing.T) {
	key := func(native string) string {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GOSPML_TEST_KEY=1", "GOSPML_NATIVE="+native)
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	require.Equal(t, key(""), key("0"))
	if runtime.GOARCH == "amd64" {
		require.NotEqual(t, key(""), key("1"))
	}
	require.Regexp(t, "^[0-9a-f]{16}$", key("1"))

	t.Setenv("GOSPML_NATIVE", "yes")
	_, err := Setup(t.Context(), io.Discard, Options{})
	requireSentence(t, err, `GOSPML_NATIVE is "yes"`, "want 1")
}
