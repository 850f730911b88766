package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// docs/methods.md and its pictures are what the registry gives.
func TestDocsAreCurrent(t *testing.T) {
	files, err := Files()
	require.NoError(t, err)
	docs := filepath.Join(testroot.Module(), "docs")
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err, "run go generate ./spml/loss")
		require.True(t, string(want) == string(got), "%s is not what the registry gives: run go generate ./spml/loss", name)
	}
	kept, err := os.ReadDir(filepath.Join(docs, "methods"))
	require.NoError(t, err)
	require.Len(t, kept, len(files)-1, "a picture of a loss that is gone")
}
