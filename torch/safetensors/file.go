package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/gospml/gospml/internal/plain"
)

// File is an open safetensors file whose header has been checked. It is safe for use by many goroutines until Close.
type File struct {
	r      io.ReaderAt
	closer io.Closer // nil for Parse
	path   string
	start  int64 // of the data in the file
	size   int64 // of the data
	h      *header
}

// Info describes one tensor.
type Info struct {
	Name   string
	Dtype  Dtype
	Shape  []int64
	Offset int64 // of the first byte, from the beginning of the file
	Size   int64 // in bytes
}

// FormatError says how a file breaks the format's rules.
type FormatError struct {
	Path   string // empty for Parse
	Reason string
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return plain.Message("not a valid safetensors file: " + e.Reason)
	}
	return plain.Message(plain.Text(e.Path) + " is not a valid safetensors file: " + e.Reason)
}

// Open opens a file and checks its header. The file stays open until Close.
func Open(path string) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (%s)", path, st.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := open(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

func open(f *os.File, path string) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parse(f, st.Size(), path)
	if err != nil {
		return nil, err
	}
	file.closer = f
	return file, nil
}

// Parse checks the header of size bytes behind r, which must allow reads from many goroutines if the File is used so.
func Parse(r io.ReaderAt, size int64) (*File, error) { return parse(r, size, "") }

func parse(r io.ReaderAt, size int64, path string) (*File, error) {
	invalid := func(format string, args ...any) (*File, error) {
		return nil, &FormatError{Path: path, Reason: fmt.Sprintf(format, args...)}
	}
	if size < 8 {
		return invalid("%d bytes are too few for the header's length: is it truncated?", size)
	}
	var prefix [8]byte
	if err := readAt(r, prefix[:], 0, path); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > MaxHeader {
		return invalid("the header's length says %d bytes, at most %d are allowed", n, MaxHeader)
	}
	if int64(n) > size-8 {
		return invalid("the header's length says %d bytes, the file has only %d more: is it truncated?", n, size-8)
	}
	buf := make([]byte, n)
	if err := readAt(r, buf, 8, path); err != nil {
		return nil, err
	}
	start := 8 + int64(n)
	h, err := parseHeader(buf, size-start)
	if err != nil {
		return invalid("%v", err)
	}
	return &File{r: r, path: path, start: start, size: size - start, h: h}, nil
}

// readAt fills p; a file that is shorter than it was when it was measured is an error.
func readAt(r io.ReaderAt, p []byte, off int64, path string) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return &FormatError{Path: path, Reason: fmt.Sprintf("it ended at byte %d while it was read: was it cut short meanwhile?", off+int64(n))}
	}
	if path == "" {
		return err
	}
	return fmt.Errorf("reading %s: %w", path, err)
}

// Close closes the file that Open opened. Reads after it fail; what they returned before stays valid.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Len returns the number of tensors.
func (f *File) Len() int { return f.h.byOffset.len() }

// DataSize returns the number of bytes of all tensors together.
func (f *File) DataSize() int64 { return f.size }

// Names returns the tensors' names in the order of their data, which is the fastest order to read them in.
func (f *File) Names() []string { return f.names(f.h.byOffset) }

// SortedNames returns the tensors' names in byte order.
func (f *File) SortedNames() []string { return f.names(f.h.byName) }

func (f *File) names(order index) []string {
	names := make([]string, order.len())
	for i := range names {
		names[i], _ = f.h.name(order.at(i))
	}
	return names
}

// Metadata returns a copy of the "__metadata__" entries, nil if there are none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.h.metadata) }

// Info describes the tensor of that name; ok is false if there is none.
func (f *File) Info(name string) (info Info, ok bool) {
	r, ok := f.h.find(name)
	if !ok {
		return Info{}, false
	}
	return Info{
		Name:   r.name,
		Dtype:  dtypes[r.dtype].name,
		Shape:  r.shape(),
		Offset: f.start + r.begin,
		Size:   r.end - r.begin,
	}, true
}

// ReadInto fills dst, whose length must be the tensor's size, with the tensor's bytes. Nothing is allocated.
func (f *File) ReadInto(name string, dst []byte) error {
	r, err := f.find(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != r.end-r.begin {
		return fmt.Errorf("tensor %s of %s has %d bytes, the destination %d", quote(name), f, r.end-r.begin, len(dst))
	}
	return readAt(f.r, dst, f.start+r.begin, f.path)
}

// Bytes returns the tensor's bytes in a new slice.
func (f *File) Bytes(name string) ([]byte, error) {
	r, err := f.find(name)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, r.end-r.begin)
	if err := readAt(f.r, dst, f.start+r.begin, f.path); err != nil {
		return nil, err
	}
	return dst, nil
}

func (f *File) find(name string) (record, error) {
	r, ok := f.h.find(name)
	if !ok {
		return record{}, fmt.Errorf("%s has no tensor %s among its %d", f, quote(name), f.Len())
	}
	return r, nil
}

// String names the file.
func (f *File) String() string {
	if f.path == "" {
		return "the safetensors data"
	}
	return f.path
}
