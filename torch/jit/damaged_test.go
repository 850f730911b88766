package jit

import (
	"archive/zip"
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestDamagedBytes: an archive with any byte changed is refused by a sentence, or loads where nothing reads that byte.
func TestDamagedBytes(t *testing.T) {
	whole, err := os.ReadFile(testroot.Testdata("jit", "scripted.pt"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "damaged.pt")
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 400 {
		b := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		}
		if r.IntN(8) == 0 {
			b = b[:r.IntN(len(b))]
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
		m, err := Load(path)
		if err != nil {
			refused++
			require.Less(t, len(err.Error()), 20_000)
			continue
		}
		require.NoError(t, m.Close())
	}
	require.Greater(t, refused, 100)
}

// TestExpandingCode: a small archive whose code expands far is refused before it is expanded.
func TestExpandingCode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.pt")
	out, err := os.Create(path)
	require.NoError(t, err)
	w := zip.NewWriter(out)
	for _, name := range []string{"a/constants.pkl", "a/data.pkl", "a/code/__torch__.py"} {
		to, err := w.Create(name)
		require.NoError(t, err)
		zeros := make([]byte, 1<<20)
		for range 300 {
			if _, err = to.Write(zeros); err != nil || !strings.HasSuffix(name, ".py") {
				break
			}
		}
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	_, err = Load(path)
	require.ErrorContains(t, err, "expands to")
}
