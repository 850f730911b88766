package safetensors

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWriteSum: the sum is that of the file, whose bytes are Write's, with small and large pieces.
func TestWriteSum(t *testing.T) {
	dir := t.TempDir()
	var ts []Tensor
	for name, n := range map[string]int{"small": 3, "large": 1 << 18, "odd": 1<<16 + 1} {
		b := bytes.Repeat([]byte{byte(n), 7, 9}, n)
		ts = append(ts, Tensor{Name: name, Dtype: U8, Shape: []int64{int64(len(b))}, Stream: func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		}})
	}
	sum, err := WriteSum(filepath.Join(dir, "a"), ts, map[string]string{"k": "v"})
	require.NoError(t, err)
	require.NoError(t, Write(filepath.Join(dir, "b"), ts, map[string]string{"k": "v"}))
	want, err := Hash(filepath.Join(dir, "b"))
	require.NoError(t, err)
	require.Equal(t, want, sum)
	a, err := os.ReadFile(filepath.Join(dir, "a"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "b"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b))
	_, err = WriteSum(filepath.Join(dir, "no", "c"), ts, nil)
	require.Error(t, err)
}
