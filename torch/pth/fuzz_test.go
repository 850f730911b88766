package pth

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// FuzzPickle: no input makes the reader panic or allocate more than its size and 1 MB, and every tensor that it accepts can be
// read. The input is a whole file, or the pickle of an archive.
func FuzzPickle(f *testing.F) {
	for _, pattern := range []string{"*.pth", "*.pt", "*.bin"} {
		paths, err := filepath.Glob(testroot.Testdata("pth", pattern))
		require.NoError(f, err)
		require.NotEmpty(f, paths)
		for _, path := range paths {
			file, err := os.ReadFile(path)
			require.NoError(f, err)
			f.Add(file, false)
		}
	}
	for _, c := range hostile(f) {
		if len(c.file) < 1<<14 {
			f.Add(c.file, false)
		}
	}
	f.Add([]byte(state(tensor(num(0), []string{num(2), num(2)}, []string{num(1), num(2)}))), true)
	f.Fuzz(func(t *testing.T, data []byte, pickle bool) {
		if pickle {
			data = archiveOf(t, string(data))
		}
		before := allocated()
		file, err := Parse(bytes.NewReader(data), int64(len(data)))
		used := allocated() - before
		require.LessOrEqual(t, used, uint64(len(data)+slack))
		if err != nil {
			require.Nil(t, file)
			return
		}
		before = allocated()
		entries, err := file.StateDict()
		if err != nil {
			return
		}
		require.LessOrEqual(t, allocated()-before, uint64(len(data)+slack))
		total := int64(0)
		for _, e := range entries {
			if total += e.Tensor.Size(); e.Tensor.Size() > 1<<16 || total > 1<<20 {
				break
			}
			b, err := file.Bytes(e.Tensor)
			require.NoError(t, err)
			require.EqualValues(t, e.Tensor.Size(), len(b))
		}
		for _, s := range file.Storages() {
			require.LessOrEqual(t, s.at()+s.Size(), int64(len(data)))
		}
	})
}
