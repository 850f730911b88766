package parity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Python takes no module from the working folder.
func TestNoModuleOfTheWorkingFolderRuns(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	dir, evidence := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	for _, name := range []string{"json.py", "PIL.py"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "open(%q, 'w')\n", evidence), 0o644))
	}
	t.Chdir(dir)
	_, _ = Run(t.Context(), "python3", nil, func(int) {}) // an error where there is no Pillow
	require.NoFileExists(t, evidence)
}
