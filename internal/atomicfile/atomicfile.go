package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// bufferSize of the writer handed to the callback: large enough that a header of many small writes costs nothing.
const bufferSize = 256 << 10

// WriteFile gives path the content that write produces. perm (before umask, and never writable by everybody) holds only
// for a file that does not exist yet. The writer is buffered and valid only during the call; an error from write is
// returned as it is, wrapped with the path.
func WriteFile(path string, perm fs.FileMode, write func(w io.Writer) error) error {
	if err := replace(path, perm, write, system{}); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// WriteBytes gives path the content data; see WriteFile.
func WriteBytes(path string, perm fs.FileMode, data []byte) error {
	return WriteFile(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// SyncDir makes the names in a folder durable: files created, renamed or removed there before the call.
// File systems that cannot sync a folder are taken as durable already.
func SyncDir(dir string) error {
	if err := injected(OpSyncDir, dir); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// file is what replace needs of a temporary file.
type file interface {
	io.WriteCloser
	Name() string
	Chmod(fs.FileMode) error
	Sync() error
	Release() // of its lock, when its fate is decided
}

// filesystem is the calls that can fail part-way; tests put failures in.
type filesystem interface {
	Create(path string, perm fs.FileMode) (file, error) // fails with fs.ErrExist where path is there
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(dir string) error
}

type system struct{}

func (system) Create(path string, perm fs.FileMode) (file, error) {
	if err := injected(OpCreate, path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm&^0o002)
	if err != nil {
		return nil, err // a nil *os.File must not become a non-nil interface
	}
	release, there := hold(f)
	if !there {
		release()
		f.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: fs.ErrExist} // another name is tried
	}
	return breakable{f, release}, nil
}

func (system) Rename(from, to string) error {
	if err := injected(OpRename, to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (system) Remove(path string) error { return os.Remove(path) }

func (system) SyncDir(dir string) error { return SyncDir(dir) }

func replace(path string, perm fs.FileMode, write func(io.Writer) error, sys filesystem) (err error) {
	path, old, err := target(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	sweep(dir)
	f, err := createTemp(path, perm, sys)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the temporary name would only distract
		}
		return fmt.Errorf("cannot create a file in folder %s: %w", dir, err)
	}
	defer f.Release()
	closed, renamed := false, false
	defer func() { // also runs when write panics
		if renamed {
			return
		}
		if !closed {
			f.Close()
		}
		sys.Remove(f.Name())
	}()

	w := bufio.NewWriterSize(f, bufferSize)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	closed = true
	if err := f.Close(); err != nil {
		return err
	}
	if err := sys.Rename(f.Name(), path); err != nil {
		return err
	}
	renamed = true
	if err := sys.SyncDir(dir); err != nil {
		return fmt.Errorf("the file is in place but folder %s could not be synced: %w", dir, err)
	}
	return nil
}

// target follows symbolic links and returns the path to replace and what is there now (nil if nothing is).
func target(path string) (string, fs.FileInfo, error) {
	if path == "" {
		return "", nil, errors.New("the path is empty")
	}
	link, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil // a missing folder shows when the temporary file is made
	}
	if err != nil {
		return "", nil, err
	}
	if link.Mode()&fs.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", nil, fmt.Errorf("symbolic link leads nowhere: %w", err)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	if !st.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s is not a regular file (%s)", path, st.Mode())
	}
	return path, st, nil
}

func createTemp(path string, perm fs.FileMode, sys filesystem) (file, error) {
	dir, base := filepath.Split(path)
	if len(base) > 200 { // file names end at 255 bytes
		base = base[:200]
	}
	for try := 0; ; try++ {
		name := filepath.Join(dir, "."+base+tempMark+strconv.FormatUint(rand.Uint64(), 36))
		f, err := sys.Create(name, perm)
		if errors.Is(err, fs.ErrExist) && try < 100 {
			continue
		}
		return f, err
	}
}

// Rename is os.Rename as the functions here take it, so that tests can let it fail.
func Rename(from, to string) error { return system{}.Rename(from, to) }
