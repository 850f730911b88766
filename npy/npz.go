package npy

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// DefaultLimit is a limit for OpenNPZ that ordinary archives stay below: 1 GiB.
const DefaultLimit = 1 << 30

// userLimit is what SetLimit set.
var userLimit atomic.Int64

// SetLimit lets the arrays of each archive that is opened in this process from now on with [Account] expand to bytes,
// if that is more than Account allows by itself, and returns the number before. It is for programs whose user vouches
// for archives that expand far; 0 is the default. It is safe from many goroutines.
func SetLimit(bytes int64) (before int64) { return userLimit.Swap(max(bytes, 0)) }

// Account is the limit for an archive of size bytes that nobody vouches for: 16 times its size and 256 MB, or what
// [SetLimit] allows.
func Account(size int64) int64 { return max(userLimit.Load(), 256<<20+16*min(size, 1<<56)) }

const (
	maxDirectory = 4 << 20 // bytes that the zip's directory and its end may take: some 50,000 arrays
	maxRatio     = 1032    // deflate's best
)

// NPZ is an open .npz archive. It is safe for use by many goroutines until Close.
type NPZ struct {
	path    string
	closer  io.Closer // nil for ParseNPZ
	entries map[string]*zip.File
	names   []string
}

// OpenNPZ opens an archive and checks its directory; arrays are read by Read. Deflated entries together may expand to
// at most limit bytes (DefaultLimit, [Account] of the file's size, or more for an archive that is trusted); stored ones
// never exceed the file.
func OpenNPZ(path string, limit int64) (*NPZ, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	z, err := ParseNPZ(f, size, limit)
	if err != nil {
		f.Close()
		return nil, named(err, path)
	}
	z.path, z.closer = path, f
	return z, nil
}

// ParseNPZ is OpenNPZ for size bytes behind r, which must allow reads from many goroutines if the NPZ is used so.
func ParseNPZ(r io.ReaderAt, size, limit int64) (*NPZ, error) {
	capped := &cappedReader{r: r, left: maxDirectory}
	zr, err := zip.NewReader(capped, size)
	if capped.left < 0 {
		return nil, reason("its zip directory takes more than %d bytes", maxDirectory)
	}
	if capped.err != nil {
		return nil, capped.err
	}
	if err != nil && err != zip.ErrInsecurePath { // names are never used as paths
		return nil, reason("it is not a zip archive (%v): is it truncated?", err)
	}
	capped.open = true

	z := &NPZ{entries: make(map[string]*zip.File, len(zr.File))}
	type span struct {
		name       string
		begin, end int64
	}
	var spans []span
	var expanded uint64
	for _, f := range zr.File {
		name, isArray := strings.CutSuffix(f.Name, ".npy")
		fail := func(format string, args ...any) (*NPZ, error) {
			return nil, reason("entry %q: %s", cut(f.Name), fmt.Sprintf(format, args...))
		}
		if !isArray {
			return fail("not an array (its name does not end in .npy)")
		}
		if z.entries[name] != nil {
			return fail("occurs twice")
		}
		if f.Flags&1 != 0 {
			return fail("it is encrypted")
		}
		begin, err := f.DataOffset()
		if err != nil {
			return fail("its local header cannot be read: %v", err)
		}
		if left := size - begin; left < 0 || f.CompressedSize64 > uint64(left) {
			return fail("it reaches beyond the end of the file: is it truncated?")
		}
		switch f.Method {
		case zip.Store:
			if f.CompressedSize64 != f.UncompressedSize64 {
				return fail("stored, yet its two sizes differ (%d and %d)", f.CompressedSize64, f.UncompressedSize64)
			}
		case zip.Deflate:
			if f.UncompressedSize64/maxRatio > f.CompressedSize64 {
				return fail("it claims to expand from %d bytes to %d, more than deflate can", f.CompressedSize64, f.UncompressedSize64)
			}
			if limit < 0 || f.UncompressedSize64 > uint64(limit)-expanded {
				return fail("it expands to %d bytes, those before it to %d, the limit for all is %d (the command spml reads trusted files with --file-budget 8GB)", f.UncompressedSize64, expanded, limit)
			}
			expanded += f.UncompressedSize64
		default:
			return fail("compression method %d is not supported (stored and deflated are)", f.Method)
		}
		z.entries[name] = f
		z.names = append(z.names, name)
		spans = append(spans, span{name, begin, begin + int64(f.CompressedSize64)})
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.begin-b.begin, -1), 1)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].begin < spans[i-1].end {
			return nil, reason("entries %q and %q overlap", cut(spans[i-1].name), cut(spans[i].name))
		}
	}
	return z, nil
}

// Names returns the arrays' names in the order of the archive's directory, without ".npy".
func (z *NPZ) Names() []string { return slices.Clone(z.names) }

// Read reads one array and checks its CRC.
func (z *NPZ) Read(name string) (*Array, error) {
	a, err := z.read(name)
	if err != nil {
		return nil, named(err, fmt.Sprintf("array %q of %s", cut(name), z))
	}
	return a, nil
}

func (z *NPZ) read(name string) (*Array, error) {
	f := z.entries[name]
	if f == nil {
		return nil, reason("there is none among %d", len(z.names))
	}
	r, err := f.Open()
	if err != nil {
		return nil, damaged(err)
	}
	defer r.Close()
	a, err := Decode(r, int64(f.UncompressedSize64))
	if err != nil {
		return nil, damaged(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF { // behind the last byte the zip reader compares size and CRC
		return nil, damaged(err)
	}
	return a, nil
}

// damaged tells errors in the archive's bytes from errors in reading them.
func damaged(err error) error {
	var corrupt flate.CorruptInputError
	if err == zip.ErrFormat || err == zip.ErrChecksum || errors.As(err, &corrupt) {
		return reason("the archive is damaged (%v)", err)
	}
	return ended(err, "before its size was reached")
}

// Close closes the file that OpenNPZ opened.
func (z *NPZ) Close() error {
	if z.closer == nil {
		return nil
	}
	return z.closer.Close()
}

// String names the archive.
func (z *NPZ) String() string {
	if z.path == "" {
		return "the archive"
	}
	return z.path
}

// cappedReader bounds what the zip reader takes in while it reads the directory, whose entries grow several times in
// memory.
type cappedReader struct {
	r    io.ReaderAt
	left int64
	err  error // of r, other than its end
	open bool  // the directory has been read: no bound, and no more writes here
}

func (c *cappedReader) ReadAt(p []byte, off int64) (int, error) {
	if c.open {
		return c.r.ReadAt(p, off)
	}
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errors.New("zip directory too large")
	}
	n, err := c.r.ReadAt(p, off)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
