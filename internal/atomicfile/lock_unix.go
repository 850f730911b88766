//go:build linux || darwin || freebsd || netbsd || openbsd

package atomicfile

import (
	"os"
	"syscall"
)

// hold locks a new temporary file until release, which comes after the rename and so after the file's Close. It reports
// whether the file is still there: between its making and its lock a sweeper may have taken it for a stale one. Where
// there are no locks nothing is swept either.
func hold(f *os.File) (release func(), there bool) {
	none := func() {}
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(int(f.Fd())) // a lock is the open file's: it lasts until both descriptors are closed
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return none, true
	}
	release = func() { syscall.Close(fd) }
	switch err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
	case syscall.EWOULDBLOCK:
		return release, false
	default:
		return release, true
	}
	var st syscall.Stat_t
	return release, syscall.Fstat(fd, &st) != nil || st.Nlink > 0
}

// removeStale removes a temporary file that no process holds.
func removeStale(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		os.Remove(path)
	}
}
