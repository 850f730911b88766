//go:build cgo

package abi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/third_party/native"
)

const child = "GOSPML_ABI_TEST_CHILD"

// A child process prints what Load says under an environment of its own: Load answers once a process.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		fmt.Println(Load())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// loadWith returns what Load says when the environment is env and nothing else of ours.
func loadWith(t *testing.T, env ...string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append([]string{child + "=1", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	s := strings.TrimSpace(string(out))
	require.NotContains(t, s, "\n", "one sentence")
	return s
}

// library compiles a shared library.
func library(t *testing.T, path, source string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	cmd := exec.Command(cc, "-shared", "-fPIC", "-xc", "-I", ".", "-o", path, "-")
	cmd.Stdin = strings.NewReader(source)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// torchFolder makes a folder that looks like a libtorch of a version, which is all that Load asks it.
func torchFolder(t *testing.T, major, minor, patch int) string {
	t.Helper()
	dir := t.TempDir()
	library(t, filepath.Join(dir, "lib", "libtorch_cpu.so"),
		fmt.Sprintf("#include <stdint.h>\nuint64_t aoti_torch_abi_version(void) { return %dull << 56 | %dull << 48 | %dull << 40; }", major, minor, patch))
	return dir
}

var setup = "run `" + native.SetupCommand + "`"

func TestLoadWithoutTorch(t *testing.T) {
	cache := t.TempDir()
	require.Equal(t, "torch: libtorch 2.11.0 is not on this machine; "+setup, loadWith(t, "GOSPML_CACHE="+cache))
	require.Equal(t, "torch: LIBTORCH=/nowhere has no lib/libtorch_cpu.so; unset LIBTORCH and "+setup,
		loadWith(t, "GOSPML_CACHE="+cache, "LIBTORCH=/nowhere"))
}

func TestLoadOtherTorch(t *testing.T) {
	dir := torchFolder(t, 2, 10, 0)
	require.Equal(t, "torch: "+dir+"/lib/libtorch_cpu.so is libtorch 2.10.0, this module needs 2.11.0; unset LIBTORCH and "+setup,
		loadWith(t, "LIBTORCH="+dir))

	// The same in the cache, where LIBTORCH is not the reason.
	cache := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(cache, "libtorch-2.11.0"), 0o755))
	require.NoError(t, os.Symlink(dir, filepath.Join(cache, "libtorch-2.11.0", "torch")))
	require.Equal(t, "torch: "+cache+"/libtorch-2.11.0/torch/lib/libtorch_cpu.so is libtorch 2.10.0, this module needs 2.11.0; "+setup,
		loadWith(t, "GOSPML_CACHE="+cache))

	old := t.TempDir()
	library(t, filepath.Join(old, "lib", "libtorch_cpu.so"), "int nothing;")
	require.Equal(t, "torch: "+old+"/lib/libtorch_cpu.so is libtorch of an unknown version, this module needs 2.11.0; unset LIBTORCH and "+setup,
		loadWith(t, "LIBTORCH="+old))
}

func TestLoadTorchIsNoLibrary(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lib", "libtorch_cpu.so")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("version https://git-lfs.github.com/spec/v1\n"), 0o644))
	s := loadWith(t, "LIBTORCH="+dir)
	require.True(t, strings.HasPrefix(s, "torch: "+file+" cannot be opened ("), s)
	require.True(t, strings.HasSuffix(s, "); "+setup), s)
}

func TestLoadOwnLibrary(t *testing.T) {
	torch := "LIBTORCH=" + torchFolder(t, 2, 11, 0)
	header := "#include \"gospml_torch.h\"\n"
	for _, c := range []struct{ name, source, want string }{
		{"absent", "", "libgospml-cpu.so is not in DIR; " + setup},
		{"foreign", "int nothing;", "DIR/libgospml-cpu.so is not a gospml library (no gospml_torch_api); " + setup},
		{"refuses", header + "const gs_api *gospml_torch_api(uint32_t abi) { return 0; }",
			fmt.Sprintf("DIR/libgospml-cpu.so has another ABI number than %d, it belongs to another version of gospml; %s", ABI, setup)},
		{"other number", header + "static gs_api api; const gs_api *gospml_torch_api(uint32_t abi) { api.abi = abi + 1; api.size = sizeof api; return &api; }",
			fmt.Sprintf("DIR/libgospml-cpu.so has another ABI number than %d, it belongs to another version of gospml; %s", ABI, setup)},
		{"shorter table", header + "static gs_api api; const gs_api *gospml_torch_api(uint32_t abi) { api.abi = abi; api.size = sizeof api - 8; return &api; }",
			fmt.Sprintf("DIR/libgospml-cpu.so has another ABI number than %d, it belongs to another version of gospml; %s", ABI, setup)},
		{"for another libtorch", header + "static gs_api api; const gs_api *gospml_torch_api(uint32_t abi) { api.abi = abi; api.size = sizeof api; api.torch_version = \"2.10.0\"; return &api; }",
			"DIR/libgospml-cpu.so was built for libtorch 2.10.0, not 2.11.0; " + setup},
		{"fits", header + "static gs_api api; const gs_api *gospml_torch_api(uint32_t abi) { api.abi = abi; api.size = sizeof api; api.torch_version = \"2.11.0\"; return &api; }", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.source != "" {
				library(t, filepath.Join(dir, Library), c.source)
			}
			want := "torch: " + strings.ReplaceAll(c.want, "DIR", dir)
			if c.want == "" {
				want = "<nil>"
			}
			require.Equal(t, want, loadWith(t, torch, "GOSPML_LIB="+dir))
		})
	}
	t.Run("text", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, Library), []byte("not a library"), 0o644))
		s := loadWith(t, torch, "GOSPML_LIB="+dir)
		require.True(t, strings.HasPrefix(s, "torch: "+dir+"/"+Library+" cannot be opened ("), s)
		require.True(t, strings.HasSuffix(s, "); "+setup), s)
	})
	t.Run("undefined symbol", func(t *testing.T) {
		dir := t.TempDir()
		library(t, filepath.Join(dir, Library), "int absent_function(void); int f(void) { return absent_function(); }")
		require.Contains(t, loadWith(t, torch, "GOSPML_LIB="+dir), "absent_function); "+setup)
	})
	t.Run("not set up", func(t *testing.T) {
		cache := t.TempDir()
		s := loadWith(t, torch, "GOSPML_CACHE="+cache)
		require.True(t, strings.HasPrefix(s, "torch: libgospml-cpu.so is not in "), s)
		require.Contains(t, s, filepath.Join(cache, "lib", native.BuildKey()))
		require.True(t, strings.HasSuffix(s, "; "+setup), s)
	})
}
