package native

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gospml/gospml/internal/atomicfile"
)

// ErrDamaged is wrapped by every error that says that a library is not what a set-up installed.
var ErrDamaged = errors.New("native library damaged")

// damage is a library that cannot be used. It counts as not found, too.
type damage struct{ path, how string }

func (e *damage) Error() string {
	return fmt.Sprintf("%s is damaged (%s); run `%s`", e.path, e.how, SetupCommand)
}
func (e *damage) Is(target error) bool { return target == ErrDamaged || target == ErrNotFound }

// sumsFile is in each folder that a set-up installs libraries into.
const sumsFile = ".gospml-sums.json"

// fileSum is what a set-up notes of a library: the hash decides, size and time save reading half a gigabyte at each
// start of a program.
type fileSum struct {
	SHA256   string `json:"sha256"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
}

// sums are the libraries of a folder by path relative to it.
type sums map[string]fileSum

// readSums returns the notes of a folder; none where an earlier version installed it.
func readSums(dir string) sums {
	var s sums
	b, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return nil
	}
	return s
}

func (s sums) write(dir string) error {
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, sumsFile), 0o644, append(b, '\n'))
}

// forgetSums removes the notes of a folder whose libraries are about to be replaced: a program that starts meanwhile
// must not take the new ones for damaged.
func forgetSums(dir string) error {
	if err := os.Remove(filepath.Join(dir, sumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// noteSums writes down what the libraries of a folder are now. Those that are noted and unchanged are not read again,
// unless they are new.
func noteSums(dir string, names []string, isNew bool) error {
	s := readSums(dir)
	if s == nil {
		s = sums{}
	}
	changed := false
	for _, name := range names {
		path := filepath.Join(dir, name)
		// Archives of container images keep whole seconds.
		if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && st.ModTime().Nanosecond() != 0 {
			whole := st.ModTime().Truncate(time.Second)
			_ = os.Chtimes(path, whole, whole)
		}
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if have, ok := s[name]; ok && !isNew && have.Size == st.Size() && have.Modified == st.ModTime().UnixNano() {
			continue
		}
		sum, err := hashFile(path)
		if err != nil {
			return err
		}
		s[name], changed = fileSum{sum, st.Size(), st.ModTime().UnixNano()}, true
	}
	if !changed {
		return nil
	}
	return s.write(dir)
}

// check compares one library with the notes: by size and time, and by its hash where the time is another, or full says
// so. A time that has changed with the same content (a copied cache) is noted, where the folder can be written.
func (s sums) check(dir, name string, full bool) error {
	path := filepath.Join(dir, name)
	want, noted := s[name]
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && noted:
		return &damage{path, "it is gone"}
	case err != nil:
		return err
	case !noted: // of an earlier version, which kept no hashes
		return whole(path)
	case !st.Mode().IsRegular():
		return &damage{path, "it is " + kindOf(st.Mode()) + " where a file was installed"}
	case st.Size() != want.Size:
		return &damage{path, fmt.Sprintf("it has %d bytes instead of %d", st.Size(), want.Size)}
	}
	sameTime := st.ModTime().UnixNano() == want.Modified
	if sameTime && !full {
		return nil
	}
	sum, err := hashFile(path)
	if err != nil {
		return err
	}
	if sum != want.SHA256 {
		return &damage{path, "its SHA-256 is not that of what was installed"}
	}
	if !sameTime {
		want.Modified = st.ModTime().UnixNano()
		s[name] = want
		_ = s.write(dir) // a folder that cannot be written is read again next time
	}
	return nil
}

// checkFolder compares every noted library of a folder.
func checkFolder(dir string, full bool) []error {
	s := readSums(dir)
	var all []error
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if err := s.check(dir, name, full); err != nil {
			all = append(all, err)
		}
	}
	return all
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m.IsDir():
		return "a folder"
	}
	return "no regular file"
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, f, make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// whole refuses an ELF file that ends before its own tables say: the loader would map it and the process die at the
// first touch.
func whole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return &damage{path, "it is " + kindOf(st.Mode())}
	}
	var h [64]byte
	if n, err := io.ReadFull(f, h[:]); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", path, err)
	} else if !bytes.HasPrefix(h[:n], []byte("\x7fELF")) {
		return nil // the loader says what it is
	} else if n < len(h) {
		return &damage{path, fmt.Sprintf("it ends after %d bytes", n)}
	}
	u16, u64 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint64
	end := u64(h[40:]) + uint64(u16(h[58:]))*uint64(u16(h[60:])) // of the sections' table, which most linkers put last
	segments := make([]byte, int(u16(h[54:]))*int(u16(h[56:])))
	if _, err := f.ReadAt(segments, int64(u64(h[32:])&(1<<62-1))); err != nil {
		return &damage{path, fmt.Sprintf("it ends after %d bytes", st.Size())}
	}
	for size := int(u16(h[54:])); size >= 56 && len(segments) >= size; segments = segments[size:] {
		end = max(end, u64(segments[8:])+u64(segments[32:]))
	}
	if end > uint64(st.Size()) {
		return &damage{path, fmt.Sprintf("it has %d bytes of %d", st.Size(), end)}
	}
	return nil
}

// removeDamaged deletes the libraries of a folder that are not what was installed, so that the set-up installs them
// again, and says so.
func removeDamaged(w io.Writer, dir string, names []string) error {
	s := readSums(dir)
	for _, name := range names {
		err := s.check(dir, name, true)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var d *damage
		if !errors.As(err, &d) {
			return err
		}
		fmt.Fprintf(w, "%s is damaged (%s): it is installed again\n", d.path, d.how)
		if err := os.RemoveAll(d.path); err != nil {
			return err
		}
	}
	return nil
}

// Verify reads every library that set-ups installed and compares its hash with what they noted, and looks at who may
// write the cache folder. It returns how many libraries it read and what is wrong, each with the command that mends it.
func Verify() (libraries int, wrong []error) {
	cache, err := CacheDir()
	if err != nil {
		return 0, []error{err}
	}
	l, err := embeddedLock()
	if err != nil {
		return 0, []error{err}
	}
	dirs := map[string]bool{}
	if d, err := LibDir(); err == nil {
		dirs[d] = true
	}
	for _, d := range l.Dirs {
		dirs[filepath.Join(cache, d)] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		libraries += len(readSums(dir))
		wrong = append(wrong, checkFolder(dir, true)...)
	}
	return libraries, append(wrong, checkOwners(cache, slices.Sorted(maps.Keys(dirs)))...)
}

// checkOwners names the folders of the cache that somebody else owns or anybody may write: what lies there runs in
// every program of ours.
func checkOwners(cache string, dirs []string) []error {
	var wrong []error
	for _, dir := range append([]string{cache, filepath.Join(cache, "lib"), filepath.Join(cache, "ops")}, dirs...) {
		st, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		switch uid := owner(st); {
		case st.Mode()&fs.ModeSymlink != 0: // where it leads is the person's choice
		case st.Mode().Perm()&0o002 != 0:
			wrong = append(wrong, fmt.Errorf("everybody may write %s, and programs load what lies there; run `chmod -R o-w %s`", dir, cache))
		case uid >= 0 && uid != os.Geteuid() && uid != 0:
			wrong = append(wrong, fmt.Errorf("%s belongs to another user (%d), and programs load what lies there; run `chown -R %d %s` as root, or set "+
				"GOSPML_CACHE to a folder of your own", dir, uid, os.Geteuid(), cache))
		}
	}
	return wrong
}
