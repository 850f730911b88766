package vlm

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity is what tells a file from another of the same name, size and time: programs can set a file's time, but not when its inode changed.
func identity(st fs.FileInfo) string {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(s.Dev, s.Ino, s.Ctim.Sec, s.Ctim.Nsec)
	}
	return ""
}
