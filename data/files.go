package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/gospml/gospml/data/pixel"
)

// MaxImageBytes is the largest image file that is read.
const MaxImageBytes = pixel.MaxFileBytes

const (
	maxNameBytes = 4096
	keepBytes    = 16 << 20 // one unusually large file does not hold memory for ever
)

// cleanName checks the name of an image and returns its short form ("./a//b.jpg" -> "a/b.jpg"). Names are relative,
// with slashes, and stay below their folder: `..`, absolute names, drive letters, back-slashes and NUL are refused on
// every system.
func cleanName(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("the file name is empty")
	case len(name) > maxNameBytes:
		return "", fmt.Errorf("the file name has %d bytes, at most %d are allowed", len(name), maxNameBytes)
	case strings.IndexByte(name, 0) >= 0:
		return "", fmt.Errorf("file name %q holds a NUL byte", name)
	case strings.Contains(name, `\`):
		return "", fmt.Errorf("file name %q holds a back-slash: write folders with /", name)
	case name[0] == '/' || len(name) > 1 && name[1] == ':' && isLetter(name[0]):
		return "", fmt.Errorf("file name %q is absolute: it must be relative to the folder of the images", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("file name %q leads out of the folder of the images", name)
		}
	}
	if strings.HasSuffix(name, "/") || path.Clean(name) == "." {
		return "", fmt.Errorf("file name %q names a folder", name)
	}
	return path.Clean(name), nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// Files is a [Source] of image files below one folder. Every open goes through [os.Root]: no name and no link leads out
// of it.
type Files struct {
	root  *os.Root
	names []string
}

// OpenFiles returns a source of the named files below dir. Names that lead elsewhere are an error here; a file that is
// absent or damaged is one when it is read (see [Files.Missing]).
func OpenFiles(dir string, names []string) (*Files, error) {
	clean := make([]string, len(names))
	for i, n := range names {
		c, err := cleanName(n)
		if err != nil {
			return nil, fmt.Errorf("data: row %d: %w", i, err)
		}
		clean[i] = c
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("data: cannot open the folder of the images: %w", err)
	}
	return &Files{root: root, names: clean}, nil
}

// Missing is a file that cannot be reached, with the reason.
type Missing struct {
	Row int
	Err error
}

// Missing looks for every file, without opening it, and returns the rows whose file is absent or lies behind a link out
// of the folder.
func (f *Files) Missing() []Missing {
	var missing []Missing
	for i, n := range f.names {
		if _, err := f.root.Stat(n); err != nil && !errors.Is(err, fs.ErrPermission) {
			missing = append(missing, Missing{i, err})
		}
	}
	return missing
}

// NewReader implements [Source].
func (f *Files) NewReader(opt ReadOptions) (Reader, error) {
	d, err := pixel.NewDecoder(opt.Decode)
	if err != nil {
		return nil, err
	}
	return &fileReader{files: f, decoder: d, filter: opt.Filter}, nil
}

// Close implements [Source].
func (f *Files) Close() error { return f.root.Close() }

// ReadFile returns the bytes of a row's file in buf, which grows as needed. Only regular files are read, up to
// [MaxImageBytes].
func (f *Files) ReadFile(row int, buf []byte) ([]byte, error) {
	file, err := openRegular(f.root, f.names[row])
	if err != nil {
		return buf[:0], err
	}
	defer file.Close()
	size, err := pixel.RegularSize(file)
	if err == nil && size > MaxImageBytes {
		err = fmt.Errorf("%d bytes are more than the %d allowed for an image file", size, MaxImageBytes)
	}
	if err != nil {
		return buf[:0], err
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size+size/4)
	}
	n, err := io.ReadFull(file, buf[:size])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // it shrank meanwhile: the decoder will say what is missing
	}
	return buf[:n], err
}

// openRegular opens a regular file for reading; folders, pipes and devices are errors.
func openRegular(root *os.Root, name string) (*os.File, error) {
	// O_NONBLOCK: opening a pipe must not wait for a writer.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if _, err := pixel.RegularSize(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// RawSource is a [Source] that gives the bytes of a row's image file too.
type RawSource interface {
	Source
	// ReadFile returns the bytes in buf, which grows as needed.
	ReadFile(row int, buf []byte) ([]byte, error)
}

type fileReader struct {
	files   RawSource
	decoder *pixel.Decoder
	filter  pixel.Filter
	buf     []byte
	where   func(row int) string // of the image, where its name does not say it; nil: it does
}

func (r *fileReader) Read(row, w, h int, dst []byte) error {
	b, err := r.files.ReadFile(row, r.buf)
	if r.buf = b; cap(b) > keepBytes {
		r.buf = nil
	}
	if err != nil {
		return err
	}
	if err = r.decoder.Resized(b, w, h, r.filter, dst); err != nil && r.where != nil {
		err = fmt.Errorf("%s: %w", r.where(row), err)
	}
	return err
}

func (r *fileReader) Close() error { return r.decoder.Close() }
