package cuda

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStandIns: a capture that fails gives back what it took, and the allocator's question for unused tensors costs a
// collection only where room is short.
func TestStandIns(t *testing.T) {
	program := filepath.Join(t.TempDir(), "standin")
	out, err := exec.CommandContext(t.Context(), "g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", "testdata/standin.cpp", "-o", program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.CommandContext(t.Context(), program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok\n", string(out))
}
