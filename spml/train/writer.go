package train

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/internal/onewriter"
)

// BusyError is the error for a folder that another process writes, with its id and host.
type BusyError = onewriter.Busy

// lockFile lies in a folder while a process writes there.
const lockFile = ".lock"

// onlyWriter makes a run directory and keeps other writers off it until release; those who read are not kept off. Of
// several processes the first does it.
func onlyWriter(dir string, procs *Processes, ev Events) (release func() error, err error) {
	var l *onewriter.Lock
	if dir != "" && procs.Rank() == 0 {
		l, err = lockFolder(dir, ev.note)
	}
	if _, err := procs.first(err, ""); err != nil {
		return nil, err
	}
	return l.Close, nil
}

// lockFolder makes a folder and locks it.
func lockFolder(dir string, note func(string)) (*onewriter.Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the run directory cannot be made: %w", err)
	}
	l, err := onewriter.Take(filepath.Join(dir, lockFile), dir)
	if err != nil {
		return nil, err
	}
	if !l.Works() {
		note(dir + " lies on a file system without locks: nothing keeps a second run from writing there")
	}
	return l, nil
}
