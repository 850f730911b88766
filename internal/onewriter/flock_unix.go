//go:build unix

package onewriter

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var errHeld = unix.EWOULDBLOCK

// flock is errHeld where another holds the lock, ErrUnsupported where the file system has none.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
			return errors.ErrUnsupported
		}
		return err
	}
}

// alive says whether this host has a process, ours or another user's.
func alive(process int) bool {
	err := unix.Kill(process, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}
