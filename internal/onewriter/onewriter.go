// Package onewriter keeps two processes from writing one thing. A lock survives nothing: the kernel frees it when its
// process ends, however it ends.
package onewriter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Busy is the error for something that another process, or another goroutine of this one, writes now.
type Busy struct {
	What    string // that is written
	Process int    // its id; 0 where it could not be read
	Host    string
}

func (e *Busy) Error() string {
	who := "another process"
	if e.Process > 0 {
		who = fmt.Sprintf("process %d on %s", e.Process, e.Host)
	}
	return fmt.Sprintf("%s is being written by %s; wait until it has ended, or end it, and start again", e.What, who)
}

// Lock is held until Close or the end of the process.
type Lock struct {
	f *os.File // nil where the file system has no locks
}

// Take locks a file that it makes, for the writing of what. Where another process holds it, the error is a *Busy.
func Take(path, what string) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		switch err := flock(f); {
		case errors.Is(err, errHeld):
			defer f.Close()
			return nil, busy(f, what)
		case errors.Is(err, errors.ErrUnsupported):
			return &Lock{}, errors.Join(f.Close(), os.Remove(path))
		case err != nil:
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		// The holder before may have removed the file between our opening and locking it.
		mine, err := f.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
				return &Lock{f}, sign(f)
			}
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// sign writes who holds the lock.
func sign(f *os.File) error {
	host, _ := os.Hostname()
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), host), 0)
	return err
}

func busy(f *os.File, what string) error {
	b, _ := io.ReadAll(io.LimitReader(f, 1000))
	id, host, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	process, err := strconv.Atoi(id)
	if err != nil {
		return &Busy{What: what}
	}
	return &Busy{what, process, host}
}

// Works is false where the file system has no locks, so that nothing keeps a second writer away.
func (l *Lock) Works() bool { return l.f != nil }

// Close removes the file and frees the lock. A nil lock is none.
func (l *Lock) Close() error {
	if l == nil || l.f == nil {
		return nil
	}
	err := os.Remove(l.f.Name()) // while it is held: who waits for it sees that it is another file
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.f.Close())
}

// Written reports whether a process writes what the file locks, without touching it: its writer lives on this host, or
// is on another one, whose processes are not seen here.
func Written(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var who *Busy
	host, _ := os.Hostname()
	return errors.As(busy(f, ""), &who) && who.Process > 0 && (who.Host != host || alive(who.Process))
}
