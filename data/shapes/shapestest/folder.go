// Package shapestest writes drawn pictures to files, for tests that want a data set in a folder.
package shapestest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// Folder writes 100 drawn pictures as a CSV data set: 60 train, 20 val, 20 test.
func Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	ds, err := shapes.New(7, 100, 0, 0)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	labels, split := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(labels, "filename,%s\n", strings.Join(ds.Classes, ","))
	fmt.Fprintln(split, "filename,split")
	for i := range ds.N() {
		file, err := ds.Source.(data.RawSource).ReadFile(i, nil)
		require.NoError(t, err)
		name := fmt.Sprintf("%03d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), file, 0o644))
		fmt.Fprint(labels, name)
		for _, y := range ds.LabelRow(i) {
			fmt.Fprintf(labels, ",%d", y)
		}
		fmt.Fprintln(labels)
		fmt.Fprintf(split, "%s,%s\n", name, []string{"train", "train", "train", "val", "test"}[i%5])
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split.String()), 0o644))
	return dir
}
