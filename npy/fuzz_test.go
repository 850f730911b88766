package npy

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

func addFiles(f *testing.F, pattern string) {
	paths, err := filepath.Glob(testroot.Testdata("npy", pattern))
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
}

// FuzzNpy: no input makes the reader panic or allocate more than its size and 1 MB; what is accepted converts without
// panic and comes back equal after writing.
func FuzzNpy(f *testing.F) {
	addFiles(f, "*.npy")
	f.Fuzz(func(t *testing.T, data []byte) {
		before := allocated()
		a, err := decode(data)
		used := allocated() - before
		require.LessOrEqual(t, used, uint64(len(data)+1<<20))
		if err != nil {
			require.Nil(t, a)
			return
		}
		a.Float32()
		a.Float64()
		a.Int64()
		a.Strings()
		var again bytes.Buffer
		require.NoError(t, Encode(&again, a))
		b, err := decode(again.Bytes())
		require.NoError(t, err)
		require.Equal(t, a, b)
	})
}

// FuzzNpz: no input makes the reader panic or allocate more than its size, the limit and 1 MB.
func FuzzNpz(f *testing.F) {
	addFiles(f, "*.npz")
	one := file(dict("'<f4'", "False", "(2,)"), 8)
	f.Add(archive(f, entry{header: zip.FileHeader{Name: "a.npy"}, data: one}, entry{header: zip.FileHeader{Name: "b.npy", Method: zip.Deflate}, data: one}))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 18
		before := allocated()
		z, err := parseNPZ(data, limit)
		used := allocated() - before
		require.LessOrEqual(t, used, uint64(len(data)+1<<20))
		if err != nil {
			return
		}
		for _, name := range z.Names() {
			before := allocated()
			z.Read(name)
			require.LessOrEqual(t, allocated()-before, uint64(len(data)+limit+1<<20))
		}
	})
}
