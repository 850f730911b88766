package moduletest

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	modzip "golang.org/x/mod/zip"

	"github.com/gospml/gospml/internal/testroot"
)

// sourceFile is a file of the working tree, as the zip package reads it.
type sourceFile struct{ name string }

func (f sourceFile) full() string {
	return filepath.Join(testroot.Module(), filepath.FromSlash(f.name))
}
func (f sourceFile) Path() string                 { return f.name }
func (f sourceFile) Lstat() (os.FileInfo, error)  { return os.Lstat(f.full()) }
func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(f.full()) }

// sources lists what a commit of the working tree would hold.
func sources(t *testing.T) []modzip.File {
	t.Helper()
	var files []modzip.File
	for _, name := range names(t) {
		f := sourceFile{name}
		if _, err := f.Lstat(); err == nil { // else deleted, not yet committed
			files = append(files, f)
		}
	}
	return files
}

func names(t *testing.T) []string {
	t.Helper()
	root := testroot.Module()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		return unpackedNames(t, root)
	}
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Split(strings.Trim(string(out), "\x00"), "\x00")
}

// unpackedNames is for a source archive: every file but what .gitignore names.
func unpackedNames(t *testing.T, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == "build" || name == "runs"):
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(name) != ".test" && filepath.Ext(name) != ".prof":
			out = append(out, filepath.ToSlash(name))
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

// Module zips refuse odd file names, names that differ only in case, and more than 500 MB; a file left out without a
// word would be missing for users only.
func TestModuleZipRules(t *testing.T) {
	files := sources(t)
	checked, err := modzip.CheckFiles(files)
	require.NoError(t, err)
	require.NoError(t, checked.Err())
	for _, o := range checked.Omitted {
		require.Fail(t, "left out of the module zip", "%s: %v", o.Path, o.Err)
	}
	require.Len(t, checked.Valid, len(files))
	require.Contains(t, checked.Valid, "third_party/native/libtorch.lock")
	require.Contains(t, checked.Valid, "CMakeLists.txt")

	var size int64
	for _, f := range files {
		st, err := f.Lstat()
		require.NoError(t, err)
		size += st.Size()
	}
	require.Less(t, size, int64(40e6), "the repository stays under 40 MB")
}
