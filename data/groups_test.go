package data

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Groups come from a file beside any data set, go with subsets, and leave the data set's identity as it was.
func TestGroups(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("set/labels.csv", "filename,cat,dog\na.jpg,1,0\nb.jpg,0,1\nc.jpg,1,1\nd.jpg,0,1\n")
	write("set/split.csv", "filename,split\na.jpg,train\nb.jpg,train\nc.jpg,val\nd.jpg,test\n")
	set := filepath.Join(dir, "set")
	plain, err := Open(set, Options{Missing: MissingKeep})
	require.NoError(t, err)
	require.Nil(t, plain.Groups)
	var o Options
	require.NoError(t, o.Assign("missing", "keep"))
	require.NoError(t, o.Assign("groups", write("groups.csv", "filename,group\nc.jpg,walk\na.jpg,swim\nb.jpg,walk\n")))
	ds, err := Open(set, o)
	require.NoError(t, err)
	require.Equal(t, []int{1, 0, 0, -1}, ds.Groups)
	require.NoError(t, ds.Validate())
	require.Equal(t, plain.Fingerprint(), ds.Fingerprint())
	part, err := ds.Subset([]int{3, 1})
	require.NoError(t, err)
	require.Equal(t, []int{-1, 0}, part.Groups)
	ds.Groups = ds.Groups[:2]
	require.ErrorContains(t, ds.Validate(), "groups for 2")

	for text, want := range map[string]string{
		"name,group\na.jpg,1\n":              "filename,group",
		"filename,group\nz.jpg,1\n":          `"z.jpg" is no image`,
		"filename,group\na.jpg,1\na.jpg,2\n": `bad.csv:3: "a.jpg" is named twice`,
		"filename,group\na.jpg,\n":           "into a group",
		"filename,group\na.jpg,1,2\n":        "wrong number of fields",
		"":                                   "filename,group",
	} {
		o.Groups = write("bad.csv", text)
		_, err := Open(set, o)
		require.ErrorContains(t, err, want)
	}
	o.Groups = filepath.Join(dir, "none.csv")
	_, err = Open(set, o)
	require.ErrorIs(t, err, os.ErrNotExist)
}
