package native

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	tl, err := findTools(t.Context(), os.Stderr)
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
		when := time.Now().Add(-time.Duration(i) * time.Hour)
		require.NoError(t, os.Chtimes(d, when, when))
	}
	require.NoError(t, pruneBuilds(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, keptBuilds)
	for i := range keptBuilds {
		require.DirExists(t, filepath.Join(dir, fmt.Sprintf("key%d", i)))
	}
}

func TestDefaultJobs(t *testing.T) {
	require.Positive(t, defaultJobs())
	require.Positive(t, availableMemory())
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
