package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/train"
)

// A plan of two stages says how much memory the run will take at most: it takes that, within a tenth, and the stages'
// time is in the sum.
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
		require.NoError(t, c.Start())
		ended := make(chan struct{})
		most := make(chan int64)
		go func() { most <- highest(c.Process.Pid, ended) }()
		err := c.Wait()
		close(ended)
		peak = <-most
		require.NoError(t, err, &failed)
		return said.String(), peak
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

// highest is the most memory that a process has had in bytes, looked at until it ends. What wait4 says counts the
// memory of the process that started it too.
func highest(pid int, ended <-chan struct{}) (bytes int64) {
	for {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
			if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
				var kb int64
				if _, err := fmt.Sscan(rest, &kb); err == nil {
					bytes = max(bytes, kb<<10)
				}
			}
		}
		select {
		case <-ended:
			return bytes
		case <-time.After(2 * time.Millisecond):
		}
	}
}
