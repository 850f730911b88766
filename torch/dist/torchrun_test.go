//go:build torchrun

package dist

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

// TestTorchrun starts workers with the torchrun that GOSPML_TORCHRUN names (`make torchrun`): a group that works, and one of which a worker is killed, whose
// cause torchrun then prints from the error file of another.
func TestTorchrun(t *testing.T) {
	require.NoError(t, torch.Available())
	torchrun := os.Getenv("GOSPML_TORCHRUN")
	require.NotEmpty(t, torchrun, "GOSPML_TORCHRUN: the path of torchrun")
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(worker string) (string, time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, torchrun, "--no-python", "--standalone", "--nproc-per-node=4", "--max-restarts=0", self, "-test.run=^$")
		cmd.Env = append(os.Environ(), workerVariable+"="+worker, "GOSPML_DIST_DIR="+t.TempDir(), "OMP_NUM_THREADS=1")
		start := time.Now()
		out, err := cmd.CombinedOutput()
		return string(out), time.Since(start), err
	}
	out, _, err := run("collectives")
	require.NoError(t, err, out)

	out, took, err := run("killed")
	require.Error(t, err, out)
	require.Contains(t, out, "Signal 9 (SIGKILL)", "the root cause")
	require.True(t, strings.Contains(out, "another process has ended") || strings.Contains(out, "ended by SIGTERM"), out)
	t.Logf("a killed worker ended the group in %.1f s, torchrun's own start included", took.Seconds())
	require.Less(t, took, time.Minute)
}
