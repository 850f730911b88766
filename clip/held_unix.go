//go:build unix

package clip

import (
	"os"
	"syscall"
)

// ownedByUs says whether a file is this user's or root's.
func ownedByUs(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid())
}
