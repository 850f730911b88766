package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFoldersGetValidation: folders of photos name one label each, so nothing is fully labelled: a fifth of the photos
// is drawn to choose the epoch by, always the same; split.csv beside the folders stands before it.
func TestFoldersGetValidation(t *testing.T) {
	dir := t.TempDir()
	split := &strings.Builder{}
	split.WriteString("filename,split\n")
	for _, class := range []string{"cat", "dog"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, class), 0o755))
		for i := range 10 {
			name := fmt.Sprintf("%s/%02d.png", class, i)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("\x89PNG\r\n\x1a\n"), 0o644))
			fmt.Fprintf(split, "%s,%s\n", name, []string{"train", "train", "val", "test", "train"}[i%5])
		}
	}
	parts := func(o Options) (n [3]int, d *Dataset) {
		d, err := Open(dir, o)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		for _, s := range d.Split {
			n[s]++
		}
		return n, d
	}
	n, d := parts(Options{})
	require.Equal(t, [3]int{16, 4, 0}, n)
	require.Contains(t, d.Info.Split, "20 % of the train rows drawn as val with seed 1200, for scores against observed labels")
	_, again := parts(Options{Seed: 7})
	require.Equal(t, d.Split, again.Split, "the parts do not depend on the seed of the labels")
	n, _ = parts(Options{NoValidation: true})
	require.Equal(t, [3]int{20, 0, 0}, n)
	n, _ = parts(Options{Labels: LabelsFull})
	require.Equal(t, [3]int{13, 3, 4}, n, "full labels: as everywhere")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split.String()), 0o644))
	n, d = parts(Options{})
	require.Equal(t, [3]int{12, 4, 4}, n)
	require.Equal(t, "split.csv", d.Info.Split)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cat", "new.png"), []byte("\x89PNG\r\n\x1a\n"), 0o644))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, `split.csv: "cat/new.png" has no row; name the part of every photo`)
}
