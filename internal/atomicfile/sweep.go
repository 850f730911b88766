package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A temporary file is locked while it is written, and the kernel frees the lock when its process ends, however it ends.
// So the first writer of each process in a folder removes those that nobody holds.

const tempMark = ".tmp-"

// swept are the folders that this process has looked through.
var swept sync.Map

// sweep removes the temporary files that killed processes left in a folder.
func sweep(dir string) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	if _, done := swept.LoadOrStore(abs, true); done {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if isTemp(e.Name()) && e.Type().IsRegular() {
			removeStale(filepath.Join(dir, e.Name()))
		}
	}
}

// isTemp says whether a name is one that createTemp gives: a dot, the name, the mark, digits of base 36.
func isTemp(name string) bool {
	i := strings.LastIndex(name, tempMark)
	if i < 1 || name[0] != '.' {
		return false
	}
	digits := name[i+len(tempMark):]
	return len(digits) > 0 && len(digits) <= 13 && strings.Trim(digits, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
