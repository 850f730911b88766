package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of what is read from a data set's own files. They bound memory by what real sets need, many times over.
const (
	MaxCSVBytes   = 1 << 30  // bytes of one text file (CSV, JSONL, lists, ARFF, XML)
	MaxJSONBytes  = 32 << 30 // bytes of one JSON file; it is read as a stream
	maxLineBytes  = 16 << 20
	maxEntries    = 1 << 24 // files in one folder
	maxRows       = 1 << 26
	maxColumns    = 1 << 16 // classes
	maxLabelCells = 1 << 31 // rows · classes, one byte each
	maxFeatureLen = 1 << 31 // rows · features, four bytes each
)

// tree is the place that [Open] was given: a folder, and the file in it where a file was named. Everything is opened through [os.Root], so that
// no name and no link leads out of the folder.
type tree struct {
	dir  string // as the caller wrote it
	name string // for messages and for the Dataset
	file string // "" where a folder was named
	root *os.Root
}

// openTree opens a folder, or the folder of a file.
func openTree(p string) (*tree, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return nil, formatError(fmt.Sprintf("%q", p), 0, "the path holds a NUL byte")
	}
	st, err := os.Stat(p)
	if err != nil {
		return nil, fmt.Errorf("data: cannot open the data set: %w", err)
	}
	t := &tree{dir: p, name: datasetName(p)}
	if !st.IsDir() {
		t.dir, t.file = filepath.Dir(p), filepath.Base(p)
		t.name = stem(t.file)
	}
	if t.root, err = os.OpenRoot(t.dir); err != nil {
		return nil, fmt.Errorf("data: cannot open the data set's folder: %w", err)
	}
	return t, nil
}

func (t *tree) close() error { return t.root.Close() }

// stem is a file's name without folder and extensions.
func stem(name string) string {
	name = path.Base(name)
	if i := strings.IndexByte(name, '.'); i > 0 {
		name = name[:i]
	}
	return name
}

// has reports whether a file or folder of that name exists inside the tree.
func (t *tree) has(name string) bool {
	_, err := t.root.Stat(filepath.FromSlash(name))
	return err == nil
}

func (t *tree) isDir(name string) bool {
	st, err := t.root.Stat(filepath.FromSlash(name))
	return err == nil && st.IsDir()
}

// list returns the names in a folder of the tree, sorted; nil where it is absent.
func (t *tree) list(dir string) ([]fs.DirEntry, error) {
	f, err := t.root.Open(filepath.FromSlash(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data: cannot list %s: %w", dir, err)
	}
	defer f.Close()
	var all []fs.DirEntry
	for {
		some, err := f.ReadDir(4096)
		all = append(all, some...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("data: cannot list %s: %w", dir, err)
		}
		if len(all) > maxEntries {
			return nil, formatError(dir, 0, "the folder has more than %d entries", maxEntries)
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// files returns the names of files in a folder of the tree that match a pattern of [path.Match], sorted, with the folder.
func (t *tree) files(dir, pattern string) []string {
	all, err := t.list(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range all {
		if ok, _ := path.Match(pattern, e.Name()); ok && !e.IsDir() {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names
}

// folders returns the names of the folders in a folder of the tree, sorted, hidden ones left out.
func (t *tree) folders(dir string) []string {
	all, err := t.list(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || e.Type()&fs.ModeSymlink != 0 && t.isDir(path.Join(dir, e.Name()))) {
			names = append(names, e.Name())
		}
	}
	return names
}

// open opens a regular file of the tree. Its size is bounded by max.
func (t *tree) open(name string, max int64) (*os.File, int64, error) {
	if _, err := cleanName(name); err != nil {
		return nil, 0, formatError(t.name, 0, "%v", err)
	}
	f, err := openRegular(t.root, filepath.FromSlash(name))
	if err != nil {
		return nil, 0, fmt.Errorf("data: cannot read %s: %w", name, err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("data: cannot read %s: %w", name, err)
	}
	if st.Size() > max {
		f.Close()
		return nil, 0, formatError(name, 0, "the file has %d bytes, at most %d are read", st.Size(), max)
	}
	return f, st.Size(), nil
}

// head returns the first bytes of a file of the tree, without a byte order mark; nil where it cannot be read.
func (t *tree) head(name string, n int) []byte {
	f, _, err := t.open(name, 1<<62)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, n)
	k, _ := io.ReadFull(f, b)
	return bytes.TrimPrefix(b[:k], bom)
}

var bom = []byte("\xef\xbb\xbf")

// text opens a text file of the tree: UTF-8, with or without byte order mark.
func (t *tree) text(name string) (io.ReadCloser, error) {
	f, _, err := t.open(name, MaxCSVBytes)
	if err != nil {
		return nil, err
	}
	r, err := textReader(f, name)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{r, f}, nil
}

// textReader skips a byte order mark and refuses UTF-16, and more than MaxCSVBytes.
func textReader(r io.Reader, name string) (io.Reader, error) {
	in := bufio.NewReaderSize(&cappedReader{r: r, left: MaxCSVBytes, name: name}, 1<<16)
	start, err := in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, bom):
		in.Discard(3)
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return nil, formatError(name, 1, "the file is UTF-16: save it as UTF-8")
	}
	return in, nil
}

// cappedReader fails, rather than ends, after its limit.
type cappedReader struct {
	r    io.Reader
	left int64
	name string
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, formatError(c.name, 0, "the file is larger than %d bytes", MaxCSVBytes)
	}
	return n, err
}

// eachLine calls f with every line that is not blank, without its end (LF or CRLF) and trailing blanks.
func eachLine(r io.Reader, name string, f func(line int, text string) error) error {
	r, err := textReader(r, name)
	if err != nil {
		return err
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 1<<16), maxLineBytes)
	line := 0
	for s.Scan() {
		line++
		text := strings.TrimRight(s.Text(), " \t\r")
		if strings.TrimSpace(text) == "" { // blanks of any kind
			continue
		}
		if !utf8.ValidString(text) {
			return formatError(name, line, "the text is not UTF-8: save the file as UTF-8")
		}
		if strings.IndexByte(text, 0) >= 0 {
			return formatError(name, line, "the line holds a NUL byte")
		}
		if err := f(line, text); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return formatError(name, line+1, "the line is longer than %d bytes", maxLineBytes)
	}
	return s.Err()
}

// eachLine calls f with every line of a text file of the tree.
func (t *tree) eachLine(name string, f func(line int, text string) error) error {
	file, _, err := t.open(name, MaxCSVBytes)
	if err != nil {
		return err
	}
	defer file.Close()
	return eachLine(file, name, f)
}

// lines returns the lines of a text file of the tree that are not blank, trimmed.
func (t *tree) lines(name string) ([]string, error) {
	var all []string
	err := t.eachLine(name, func(_ int, text string) error {
		all = append(all, strings.TrimSpace(text))
		return nil
	})
	return all, err
}

// slashes turns the back-slashes that Windows programs write into slashes.
func slashes(name string) string { return strings.ReplaceAll(name, `\`, "/") }
