package command

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch/pth"
)

// A small archive that expands far is refused, and the refusal names the flag that reads it.
func TestFileBudget(t *testing.T) {
	t.Cleanup(func() { npy.SetLimit(0); pth.SetLimit(0) })
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("scores.npy")
	require.NoError(t, err)
	header := "{'descr': '|u1', 'fortran_order': False, 'shape': (300000000, 1), }\n"
	_, err = io.WriteString(f, "\x93NUMPY\x01\x00"+string([]byte{byte(len(header)), 0})+header)
	require.NoError(t, err)
	zeros := make([]byte, 1e6)
	for range 300 {
		_, err = f.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	path := filepath.Join(t.TempDir(), "scores.npz")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	require.Less(t, b.Len(), 400_000)

	_, _, err = execute("metric", path, path)
	require.ErrorContains(t, err, "--file-budget")
	_, _, err = execute("metric", path, filepath.Join(t.TempDir(), "none.npy"), "--file-budget", "350MB")
	require.ErrorContains(t, err, "none.npy")
	require.EqualValues(t, 350e6, pth.SetLimit(0))
	require.EqualValues(t, 350e6, npy.SetLimit(0))

	for _, bad := range []string{"", "-1", "0", "much", "9999999999999999999", "99999999GB"} {
		_, _, err = execute("metric", path, path, "--file-budget", bad)
		require.ErrorContains(t, err, "no size such as 500MB or 2GB", bad)
	}
}
