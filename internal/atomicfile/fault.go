package atomicfile

import (
	"os"
	"sync/atomic"
)

// Operation is a call to the system that can fail.
type Operation string

// The operations that a test can break.
const (
	OpCreate  Operation = "create"
	OpWrite   Operation = "write"
	OpSync    Operation = "sync"
	OpRename  Operation = "rename"
	OpSyncDir Operation = "sync folder"
)

var fault atomic.Pointer[func(op Operation, path string) error]

// Inject makes calls fail for which f returns an error, in the whole process, until restore is called. It is for tests.
func Inject(f func(op Operation, path string) error) (restore func()) {
	fault.Store(&f)
	return func() { fault.Store(nil) }
}

func injected(op Operation, path string) error {
	if f := fault.Load(); f != nil {
		if err := (*f)(op, path); err != nil {
			return &os.PathError{Op: string(op), Path: path, Err: err}
		}
	}
	return nil
}

// breakable is a file whose calls a test can break.
type breakable struct {
	*os.File
	release func()
}

func (b breakable) Release() { b.release() }

func (b breakable) Write(p []byte) (int, error) {
	if err := injected(OpWrite, b.Name()); err != nil {
		n, _ := b.File.Write(p[:len(p)/2]) // a full disk takes a part
		return n, err
	}
	return b.File.Write(p)
}

func (b breakable) Sync() error {
	if err := injected(OpSync, b.Name()); err != nil {
		return err
	}
	return b.File.Sync()
}
