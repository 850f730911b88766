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
	busy := &BusyError{What: run, Process: first.Process.Pid, Host: host}
	c := small(dir, "em")
	c.Run = run
	_, err = Run(context.Background(), c, Events{})
	require.Equal(t, busy, err)
	_, err = Resume(context.Background(), run, nil, Events{})
	require.Equal(t, busy, err)
	shared := small(dir, "lac")
	shared.StageOne, shared.Run, shared.DecoderDim = run, filepath.Join(t.TempDir(), "other"), 32
	_, err = Run(context.Background(), shared, Events{})
	var other *BusyError
	require.ErrorAs(t, err, &other)
	require.Equal(t, busy, other)
	_, err = ReadRun(run)
	require.NoError(t, err)

	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	_, err = Resume(context.Background(), run, nil, Events{})
	require.NoError(t, err)
	got, _ := newestSum(t, run)
	require.Equal(t, want, got)
	require.NoFileExists(t, filepath.Join(run, lockFile), "nothing is left of it")
}
