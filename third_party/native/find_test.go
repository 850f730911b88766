package native

import (
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindLib(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("GOSPML_CACHE", cache)
	t.Setenv("GOSPML_LIB", "")
	_, err := FindLib("libgospml-cpu.so")
	require.ErrorIs(t, err, ErrNotFound)
	requireSentence(t, err, SetupCommand)

	dir, err := LibDir()
	require.NoError(t, err)
	writeFile(t, filepath.Join(dir, "libgospml-cpu.so"), "x", 0o755)
	p, err := FindLib("libgospml-cpu.so")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "libgospml-cpu.so"), p)

	// A given folder is the only one.
	own := t.TempDir()
	t.Setenv("GOSPML_LIB", own)
	_, err = FindLib("libgospml-cpu.so")
	require.ErrorContains(t, err, own)
}

func TestSetupCommand(t *testing.T) {
	built := func(path string) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) { return &debug.BuildInfo{Path: path}, true }
	}
	const inModule = "go run -mod=mod github.com/gospml/gospml/cmd/spml setup"
	require.Equal(t, inModule, SetupCommand, "what TestModuleFromProxy runs")
	require.Equal(t, inModule, setupCommand("./service", built("example.com/service")))
	require.Equal(t, "bin/spml setup", setupCommand("bin/spml", built("github.com/gospml/gospml/cmd/spml")))
	require.Equal(t, inModule, setupCommand("/x/go-build1/b001/exe/spml", built("github.com/gospml/gospml/cmd/spml")))
	require.Equal(t, inModule, setupCommand("./service", func() (*debug.BuildInfo, bool) { return nil, false }))
}

func TestVersion(t *testing.T) {
	dir := t.TempDir()
	tc := &Torch{Dir: dir}
	require.Empty(t, tc.Version())
	require.False(t, tc.supported())
	writeFile(t, filepath.Join(dir, "include/torch/headeronly/version.h"),
		"#define TORCH_VERSION_MAJOR 2\n\n#define TORCH_VERSION_MINOR 11\n#define TORCH_VERSION_PATCH 0\n#define TORCH_VERSION_ABI_TAG 0\n", 0o644)
	require.Equal(t, "2.11.0", tc.Version())
	writeFile(t, filepath.Join(dir, "build-version"), "2.11.0+cpu\n", 0o644)
	require.Equal(t, "2.11.0+cpu", tc.Version())
	writeFile(t, filepath.Join(dir, "version.py"), "x = 1\n__version__ = '2.11.0+cu130'\n", 0o644)
	require.Equal(t, "2.11.0+cu130", tc.Version())
	require.True(t, tc.supported())
}

func TestDescribe(t *testing.T) {
	w := newWorld(t)
	s, err := Describe()
	require.NoError(t, err)
	require.Nil(t, s.Torch)
	require.ErrorIs(t, s.TorchErr, ErrNotFound)
	require.False(t, s.HasGPU())
	require.Empty(t, s.NVCC)
	require.Len(t, s.Libs, len(Libraries()))
	for _, l := range s.Libs {
		require.NoError(t, l.Err)
		require.FileExists(t, l.Path)
	}
	_, err = w.setup(Options{})
	require.NoError(t, err)
	s, err = Describe()
	require.NoError(t, err)
	require.Equal(t, "cache", s.Torch.Source)
	require.Equal(t, w.cache, s.CacheDir)
	require.Equal(t, BuildKey(), s.BuildKey)
}
