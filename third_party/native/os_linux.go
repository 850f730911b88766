package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile waits until this process alone holds the file and returns what gives it back. The kernel gives it back
// when the process ends, however it ends.
func lockFile(ctx context.Context, w io.Writer, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !said {
			fmt.Fprintf(w, "waiting for another set-up to end (it holds %s)\n", path)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freeBytes is what an ordinary user may still write to the folder's disk.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// syncDisk returns when everything written to the folder's file system is on the disk. One call instead of one per
// file: a set has 10,000 headers.
func syncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// run starts cmd and waits. The program and those that it starts are killed when ctx ends and also when this process
// dies, so that no download or compiler outlives a killed set-up.
func run(ctx context.Context, cmd *exec.Cmd) error {
	// The kernel sends the death signal when the starting *thread* ends, so stay on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	group := -cmd.Process.Pid
	defer guard(cmd.Process.Pid)()
	stop := context.AfterFunc(ctx, func() {
		_ = syscall.Kill(group, syscall.SIGTERM)
		time.AfterFunc(killPatience, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	})
	defer stop()
	err := cmd.Wait()
	if ctx.Err() != nil {
		// CMake has ended, ninja may still be ending its compilers.
		for end := time.Now().Add(killPatience); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		_ = syscall.Kill(group, syscall.SIGKILL)
		return ctx.Err()
	}
	return err
}

// killPatience is how long programs have between the request to end and the end. Ninja needs it: its compilers are in
// groups of their own, and only ninja ends them.
const killPatience = 3 * time.Second

// guard starts a shell that kills a process group when this process dies: a death signal reaches the program that was
// started, not what that one started. The shell notices by its standard input, a pipe whose other end is here alone.
// The function that guard returns ends it.
func guard(group int) (stop func()) {
	r, w, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	defer r.Close()
	sh := exec.Command("/bin/sh", "-c", "read nothing; trap '' TERM; kill -TERM 0; /bin/sleep 3; kill -KILL 0")
	sh.Dir, sh.Env, sh.Stdin = "/", []string{}, r
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := sh.Start(); err != nil { // the group has ended already, or there is no shell: the death signal remains
		w.Close()
		return func() {}
	}
	return func() {
		_ = sh.Process.Kill()
		_ = sh.Wait()
		w.Close()
	}
}

// owner is the user that a file belongs to, -1 where that is not known.
func owner(st os.FileInfo) int {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// availableMemory is what can be used without swapping, in bytes; 0 when the system does not say.
func availableMemory() int64 {
	b, err := os.ReadFile(filepath.Join("/proc", "meminfo"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb * 1024
		}
	}
	return 0
}
