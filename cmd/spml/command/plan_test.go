package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/train"
)

// A plan of two stages says how much memory the run will take at most: it takes that, within a tenth, and the stages' time is in the sum.
func TestPlanOfTwoStages(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	args := []string{"train", "--data", "shapes", "--data-options", "train=80,val=20,test=20", "--method", "lac", "--decoder-dim", "512", "--image-size", "48", "--epochs", "1", "--batch-size", "16",
		"--optimizer", "adamw", "--ema", "0.9", "--save-every", "off", "--threads", "1", "--progress", "off", "--run", filepath.Join(dir, "run")}
	run := func(more ...string) (out string, peak int64) {
		var said, failed strings.Builder
		c := exec.Command(exe, append(args, more...)...)
		c.Env = append(os.Environ(), "GOSPML_TEST_COMMAND=1")
		c.Stdout, c.Stderr = &said, &failed
		require.NoError(t, c.Run(), &failed)
		return said.String(), c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	}
	out, _ := run("--dry-run", "--measure", "--json")
	var p train.Plan
	require.NoError(t, json.Unmarshal([]byte(out), &p), out)
	require.NoFileExists(t, filepath.Join(dir, "run", "run.yaml"))
	require.NotNil(t, p.First)
	require.Greater(t, p.Seconds, p.First.Seconds)
	require.Positive(t, p.First.Seconds)
	_, peak := run()
	require.InEpsilon(t, peak, p.MemoryBytes, 0.1)
	require.Greater(t, p.PeakBytes, 5*p.ModelBytes, "weights, average, gradients and two moments")

	out, _ = run("--dry-run", "--measure", "--decoder-dim", "16")
	for _, line := range []string{"time ", "stage 1 ", "memory ", "disk "} {
		require.Contains(t, out, line)
	}
}
