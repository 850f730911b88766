package train

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/rundir"
)

// TestOneWriter: while a process trains in a folder, another one is refused by the first one's id and host, be it a new
// run, a resumed one or a second stage that shares it; who reads is not. When the first is killed the folder is free,
// and the run ends with the bits of an undisturbed one.
func TestOneWriter(t *testing.T) {
	dir := folder(t, 60)
	start := func(run string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), child+"="+run, child+"_DATA="+dir)
		cmd.Stderr = os.Stderr
		return cmd
	}
	whole, run := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "run")
	require.NoError(t, start(whole).Run())
	want, _ := newestSum(t, whole)

	first := start(run)
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	for lines, n := bufio.NewScanner(out), 0; n < childInterval+1 && lines.Scan(); n++ { // a checkpoint is there
	}
	require.NoError(t, first.Process.Signal(syscall.SIGSTOP)) // in the middle of its work
	host, _ := os.Hostname()
	busy := &rundir.BusyError{What: run, Process: first.Process.Pid, Host: host}
	c := small(dir, "em")
	c.Run.Dir = run
	_, err = Run(context.Background(), c, RunOptions{})
	require.Equal(t, busy, err)
	_, err = Resume(context.Background(), run, nil, RunOptions{})
	require.Equal(t, busy, err)
	shared := small(dir, "lac")
	shared.Stages.First, shared.Run.Dir, shared.Model.DecoderDim = run, filepath.Join(t.TempDir(), "other"), 32
	_, err = Run(context.Background(), shared, RunOptions{})
	var other *rundir.BusyError
	require.ErrorAs(t, err, &other)
	require.Equal(t, busy, other)
	_, err = rundir.Read(run)
	require.NoError(t, err)

	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	_, err = Resume(context.Background(), run, nil, RunOptions{})
	require.NoError(t, err)
	got, _ := newestSum(t, run)
	require.Equal(t, want, got)
	require.NoFileExists(t, filepath.Join(run, rundir.LockFile), "nothing is left of it")
}
