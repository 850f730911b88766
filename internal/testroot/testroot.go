// Package testroot finds the folders that tests read: the module's own testdata/ and the data root with photos,
// weights and specifications, which are not part of the repository.
package testroot

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Module returns the folder that holds go.mod.
func Module() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Testdata returns the path of a file below the module's testdata folder.
func Testdata(name ...string) string {
	return filepath.Join(append([]string{Module(), "testdata"}, name...)...)
}

// Root returns the data root ($GOSPML_TESTDATA, else ../shared seen from the module root) and whether it is there.
// It holds data/ (photos, weights) and spec/.
func Root() (string, bool) {
	root := os.Getenv("GOSPML_TESTDATA")
	if root == "" {
		root = filepath.Join(Module(), "..", "shared")
	}
	st, err := os.Stat(filepath.Join(root, "data"))
	return root, err == nil && st.IsDir()
}

// Shared returns the path of a file or folder below the data root and skips the test, saying why, where the root is absent.
func Shared(t testing.TB, name ...string) string {
	t.Helper()
	root, ok := Root()
	if !ok {
		t.Skipf("no data root: set GOSPML_TESTDATA to the folder that holds data/ and spec/ (looked at %s)", root)
	}
	return filepath.Join(append([]string{root}, name...)...)
}
