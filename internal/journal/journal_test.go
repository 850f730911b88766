package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func frames(t *testing.T, j *Journal) []string {
	var out []string
	require.NoError(t, j.Each(func(b []byte) error { out = append(out, string(b)); return nil }))
	require.Equal(t, len(out), j.Frames())
	return out
}

// A journal goes on after whole frames, whatever a kill or a damaged disk has left after them.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	_, err := Read(path, "a")
	require.ErrorIs(t, err, fs.ErrNotExist)
	j, other, err := Open(path, "a")
	require.NoError(t, err)
	require.False(t, other)
	for _, frame := range []string{"first", "", "third"} {
		require.NoError(t, j.Add([]byte(frame)))
	}
	require.Equal(t, 3, j.Frames())
	require.NoError(t, j.Close())
	three := []string{"first", "", "third"}
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		spoil func(b []byte) []byte
		want  []string
	}{
		"as it is":         {func(b []byte) []byte { return b }, []string{"first", "", "third"}},
		"cut in a frame":   {func(b []byte) []byte { return b[:len(b)-2] }, []string{"first", ""}},
		"cut in a length":  {func(b []byte) []byte { return append(b, 7, 0, 0) }, []string{"first", "", "third"}},
		"changed":          {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, []string{"first", ""}},
		"first is changed": {func(b []byte) []byte { b[11] ^= 1; return b }, nil},
		"a large length":   {func(b []byte) []byte { return append(b, "\xff\xff\xff\xff12345"...) }, three},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			require.NoError(t, os.WriteFile(path, c.spoil(append([]byte(nil), whole...)), 0o600))
			r, err := Read(path, "a")
			require.NoError(t, err)
			require.Equal(t, c.want, frames(t, r))
			require.NoError(t, r.Close())
			j, other, err := Open(path, "a")
			require.NoError(t, err)
			require.False(t, other)
			require.Equal(t, len(c.want), j.Frames())
			require.NoError(t, j.Add([]byte("next")))
			require.Equal(t, append(c.want, "next"), frames(t, j))
			require.NoError(t, j.Close())
		})
	}
	_, err = Read(path, "b")
	require.ErrorIs(t, err, ErrOther)
	j, other, err = Open(path, "b")
	require.NoError(t, err)
	require.True(t, other)
	require.Empty(t, frames(t, j))
	stop := errors.New("stop")
	require.NoError(t, j.Add(nil))
	require.ErrorIs(t, j.Each(func([]byte) error { return stop }), stop)
	require.NoError(t, j.Close())
}
