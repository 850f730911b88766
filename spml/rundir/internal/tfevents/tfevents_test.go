package tfevents

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBytes compares a file with the one that TensorBoard's own classes write (testdata/make.py).
func TestBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	now := func() time.Time { return time.Unix(1700000000, 250_000_000) }
	for range 2 { // a second run in the same second gets a file of its own
		w, err := open(dir, 300, now)
		require.NoError(t, err)
		require.NoError(t, w.Write(300, Scalar{"train/loss", 0.125}, Scalar{"test/mAP é", 81.25}))
		require.NoError(t, w.Write(70000, Scalar{"train/loss", -3.4e-5}, Scalar{"test/mAP é", math.NaN()}))
		require.NoError(t, w.Close())
	}
	want, err := os.ReadFile("testdata/scalars.tfevents")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*tfevents*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, f := range files {
		got, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Open(file, 0)
	require.Error(t, err)
	w, err := Open(t.TempDir(), 0)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Error(t, w.Write(1))
}
