//go:build cudalibs

// What `make cuda` has built, checked without a GPU.
package native

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The CUDA libraries are linked without CUDA's own, so a missing symbol shows only when they are opened: every
// undefined one has to be in a library that the loader opens before, or has to be CUDA's.
func TestCUDALibraries(t *testing.T) {
	require.NotEmpty(t, CUDALibraries())
	dir, err := LibDir()
	require.NoError(t, err)
	torch, err := FindTorch()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, path := range []string{filepath.Join(torch.Dir, "lib", "libtorch_cpu.so"), filepath.Join(torch.Dir, "lib", "libc10.so"), filepath.Join(dir, "libgospml-ops-cpu.so")} {
		f, err := elf.Open(path)
		require.NoError(t, err)
		symbols, err := f.DynamicSymbols()
		require.NoError(t, err)
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF {
				known[s.Name] = true
			}
		}
		require.NoError(t, f.Close())
	}
	for _, name := range CUDALibraries() {
		path := filepath.Join(dir, name)
		f, err := elf.Open(path)
		require.NoError(t, err, "run `make cuda` first")
		imported, err := f.ImportedSymbols()
		require.NoError(t, err)
		for _, s := range imported {
			cuda := strings.HasPrefix(s.Name, "cuda") || strings.HasPrefix(s.Name, "__cuda") || strings.Contains(s.Name, "c104cuda") ||
				strings.Contains(s.Name, "at4cuda") || strings.Contains(s.Name, "CUDAGeneratorState") || strings.Contains(s.Name, "getCudnnHandle") || strings.Contains(s.Name, "FreeCudaMemory") || strings.Contains(s.Name, "ProcessGroupNCCL")
			system := s.Library != "" && !strings.Contains(s.Library, "torch") // libc, libstdc++, libgcc, libgomp
			require.True(t, cuda || system || known[s.Name], "%s: nobody has %s", name, s.Name)
		}
		needed, err := f.DynString(elf.DT_NEEDED)
		require.NoError(t, err)
		for _, n := range needed {
			require.NotContains(t, n, "/")
		}
		runpath, err := f.DynString(elf.DT_RUNPATH)
		require.NoError(t, err)
		require.Empty(t, runpath)
		require.NoError(t, f.Close())
		st, err := os.Stat(path)
		require.NoError(t, err)
		t.Logf("%s: %.1f MB, %d imported symbols", name, float64(st.Size())/1e6, len(imported))
	}
}
