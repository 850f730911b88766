//go:build cgo

package pixel

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/third_party/native"
	"github.com/stretchr/testify/require"
)

// compile builds a shared library from C source.
func compile(t *testing.T, source string) string {
	dir := t.TempDir()
	c, lib := filepath.Join(dir, "lib.c"), filepath.Join(dir, "lib.so")
	require.NoError(t, os.WriteFile(c, []byte(source), 0o644))
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, c).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return lib
}

func TestLoaderErrors(t *testing.T) {
	turbo := native.FindTurboJPEG()
	text := filepath.Join(t.TempDir(), "text.so")
	require.NoError(t, os.WriteFile(text, []byte("no library\n"), 0o644))
	for name, c := range map[string]struct{ path, turbo, says string }{
		"absent":                {filepath.Join(t.TempDir(), "absent.so"), turbo, "No such file"},
		"not a library":         {text, turbo, "text.so cannot be opened"},
		"another library":       {compile(t, "int nothing;"), turbo, "is not the image library"},
		"another ABI":           {compile(t, "static unsigned t[64] = {7, 256}; const void *gospml_image_api(unsigned a) { return t; }"), turbo, "has ABI 7, this program needs 1"},
		"shorter table":         {compile(t, "static unsigned t[64] = {1, 16}; const void *gospml_image_api(unsigned a) { return t; }"), turbo, "ABI"},
		"libjpeg-turbo absent":  {text, "libturbojpeg-absent.so.0", "libjpeg-turbo cannot be opened"},
		"libjpeg-turbo damaged": {text, text, "install libturbojpeg0"},
	} {
		l, err := openLibrary(c.path, c.turbo)
		require.Nil(t, l, name)
		require.ErrorIs(t, err, ErrLibrary, name)
		require.ErrorContains(t, err, c.says, name)
		require.ErrorContains(t, err, native.SetupCommand, name)
		require.NotContains(t, err.Error(), "\n", name)
	}
}

// The environment is read once in a process, so these cases run in others.
func TestEnvironment(t *testing.T) {
	if os.Getenv("PIXEL_TEST_CHILD") != "" {
		cpu, err := CPU()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Resize(fillImage("child", 20, 10), 7, 8, Bicubic)
		require.NoError(t, err)
		t.Log("kernels:", cpu)
		return
	}
	child := func(env ...string) (string, error) {
		c := exec.Command(os.Args[0], "-test.run=^TestEnvironment$", "-test.v")
		c.Env = append(append(os.Environ(), "PIXEL_TEST_CHILD=1"), env...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, cpu := range []string{"sse", "avx2"} {
		out, err := child("GOSPML_CPU=" + cpu)
		require.NoError(t, err, out)
		l, err := load()
		require.NoError(t, err)
		if best := l.setCPU(len(cpuNames) - 1); cpuNames[min(best, 1)] == "avx2" || cpu == "sse" {
			require.Contains(t, out, "kernels: "+cpu)
		}
	}
	out, err := child("GOSPML_CPU=mmx")
	require.Error(t, err)
	require.Contains(t, out, "GOSPML_CPU=mmx is none of")
	out, err = child("GOSPML_LIB=" + t.TempDir())
	require.Error(t, err)
	require.Contains(t, out, "native library not found")
	require.Contains(t, out, native.SetupCommand)
}

func TestAvailable(t *testing.T) {
	require.NoError(t, Available())
	cpu, err := CPU()
	require.NoError(t, err)
	require.Contains(t, cpuNames, cpu)
}
