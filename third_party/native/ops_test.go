package native

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeTorch is a folder that looks like a libtorch with which nothing but empty sources can be linked.
func fakeTorch(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOSPML_CACHE", t.TempDir())
	t.Setenv("LIBTORCH", dir)
	writeFile(t, filepath.Join(dir, "include/torch/csrc/api/include/torch/torch.h"), "", 0o644)
	for _, name := range []string{"libtorch_cpu.so", "libc10.so", "libgomp.so.1"} {
		out, err := exec.Command(compiler(), "-shared", "-x", "c++", os.DevNull, "-o", libraryFile(t, dir, name)).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

func libraryFile(t *testing.T, dir, name string) string {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "lib"), 0o755))
	return filepath.Join(dir, "lib", name)
}

// examples/cpp-op compiles a real operator.
func TestCompileOps(t *testing.T) {
	fakeTorch(t)
	sources := map[string][]byte{"a.cpp": []byte("#include \"a.h\"\nint a() { return A; }\n"), "a.h": []byte("#define A 1\n")}
	path, err := CompileOps(t.Context(), "one", sources)
	require.NoError(t, err)
	require.FileExists(t, path)
	again, err := CompileOps(t.Context(), "one", sources)
	require.NoError(t, err)
	require.Equal(t, path, again)
	for name, change := range map[string]func() (string, error){
		"header": func() (string, error) {
			return CompileOps(t.Context(), "one", map[string][]byte{"a.cpp": sources["a.cpp"], "a.h": []byte("#define A 2\n")})
		},
		"flag": func() (string, error) { return CompileOps(t.Context(), "one", sources, "-DB") },
	} {
		other, err := change()
		require.NoError(t, err)
		require.NotEqual(t, path, other, name)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+tempMark+"*"))
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = CompileOps(t.Context(), "two", map[string][]byte{"b.cpp": []byte("int b() { return absent; }\n")})
	requireSentence(t, err, "error: ", "was not declared")
	_, err = CompileOps(t.Context(), "two", map[string][]byte{"b.h": nil})
	requireSentence(t, err, "no .cpp file")
	_, err = CompileOps(t.Context(), "../two", sources)
	requireSentence(t, err, "not a plain name")
	_, err = CompileOps(t.Context(), "two", map[string][]byte{"../b.cpp": nil})
	requireSentence(t, err, "not a plain file name")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = CompileOps(ctx, "three", sources)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, os.RemoveAll(filepath.Join(os.Getenv("LIBTORCH"), "include")))
	_, err = CompileOps(t.Context(), "one", sources)
	requireSentence(t, err, "no include folder")
}
