package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
)

// breakDisk lets the calls to the file system fail from the given one on, counted from the moment when the first
// checkpoint is whole: "7 ENOSPC". The program is a test's.
func breakDisk(text string) {
	if text == "" {
		return
	}
	var from int64
	var name string
	if _, err := fmt.Sscan(text, &from, &name); err != nil {
		panic(err)
	}
	errno := map[string]syscall.Errno{"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO}[name]
	var armed atomic.Bool
	var calls atomic.Int64
	atomicfile.Inject(func(op atomicfile.Operation, path string) error {
		switch {
		case armed.Load():
			if calls.Add(1) > from {
				return errno
			}
		case op == atomicfile.OpRename && filepath.Base(path) == "latest":
			armed.Store(true)
		}
		return nil
	})
}

// TestBrokenDisk fills the disk, and breaks it, at a write of a training process: it ends with 74 and names the cause,
// the checkpoint before is whole, and the run goes on from it to the weights of one that nothing disturbed.
// GOSPML_DISK=all breaks every call in turn.
func TestBrokenDisk(t *testing.T) {
	dir := tinySet(t, 4)
	values := make([]float32, 20*8)
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	a, err := npy.New([]int64{20, 8}, values)
	require.NoError(t, err)
	require.NoError(t, npy.Write(filepath.Join(dir, "features.npy"), a))
	args := []string{"train", "--data", dir, "--frozen", "--features", filepath.Join(dir, "features.npy"), "--method", "role", "--batch-size", "2", "--epochs", "2", "--save-every", "1", "--run"}
	run := filepath.Join(dir, "whole")
	code, _, stderr := spml(t, nil, append(args, run)...)
	require.Zero(t, code, stderr)
	want, err := os.ReadFile(filepath.Join(run, "model", "model.safetensors"))
	require.NoError(t, err)

	all := testroot.All("GOSPML_DISK")
	calls := []int{0, 1, 4, 9, 17}
	for i := 0; all || i < len(calls); i++ {
		at := i
		if !all {
			at = calls[i]
		}
		done := 0
		for _, errno := range []string{"ENOSPC", "EIO"} {
			if !all && i%2 == len(errno)%2 && i > 0 {
				continue // one of the two after the first call
			}
			run := filepath.Join(dir, fmt.Sprint(errno, at))
			code, _, stderr := spml(t, []string{fmt.Sprintf("GOSPML_TEST_DISK=%d %s", at, errno)}, append(args, run)...)
			if code == exitOK {
				done++
				continue
			}
			require.Equal(t, exitIO, code, "call %d %s: %s", at, errno, stderr)
			require.Contains(t, stderr, map[string]string{"ENOSPC": "no space left on device", "EIO": "input/output error"}[errno])
			code, _, stderr = spml(t, nil, "train", "--resume", "--run", run)
			require.Zero(t, code, stderr)
			require.Contains(t, stderr, "going on from step-")
			require.False(t, strings.Contains(stderr, "damaged"), stderr)
			got, err := os.ReadFile(filepath.Join(run, "model", "model.safetensors"))
			require.NoError(t, err)
			require.Equal(t, want, got, "call %d %s", at, errno)
		}
		if done > 0 {
			require.True(t, all && at > 40, "call %d: nothing was broken", at)
			return
		}
	}
}
