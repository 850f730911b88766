//go:build unix

package vlm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps other processes off a file until it is closed; file systems without locks are left as they are.
func lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: another run writes %s now", ErrSettings, f.Name())
	}
	return nil
}
