package data

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegisterFormat(t *testing.T) {
	t.Cleanup(func() { added.formats = nil })
	two := CustomFormat{
		Name: "two-rows", Title: "two rows", Holds: "two.rows",
		Sniff: func(folder fs.FS, file string) int {
			if _, err := fs.Stat(folder, "two.rows"); err != nil || file != "" {
				return 0
			}
			return 90
		},
		Open: func(folder, file string, o Options) (*Dataset, error) {
			return &Dataset{Name: filepath.Base(folder), Classes: []string{"a"}, Images: []string{"1", "2"}, Labels: []int8{1, 0}, Split: []Split{Train, Test}}, nil
		},
	}
	require.NoError(t, RegisterFormat(two))
	require.ErrorContains(t, RegisterFormat(two), "taken")
	two.Name = "csv"
	require.ErrorContains(t, RegisterFormat(two), "taken")
	require.Error(t, RegisterFormat(CustomFormat{Name: "x"}))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two.rows"), nil, 0o644))
	ds, err := Open(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, "two-rows", ds.Info.Format)
	require.Equal(t, 2, ds.N())
	var o Options
	require.NoError(t, o.Assign("format", "two-rows"))
	found, err := Detect(dir)
	require.NoError(t, err)
	require.Equal(t, "two-rows", found[0].Name)
	require.False(t, found[0].Writes())
	two.Name, two.Open = "empty-rows", func(string, string, Options) (*Dataset, error) { return &Dataset{}, nil }
	require.NoError(t, RegisterFormat(two))
	_, err = Open(dir, Options{Format: "empty-rows"})
	require.ErrorContains(t, err, "0 images")
}
