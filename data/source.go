package data

import (
	"errors"

	"github.com/gospml/gospml/data/pixel"
)

// Source gives the images of a data set by row. Its methods are safe for many goroutines at once, its readers are not.
type Source interface {
	// NewReader returns a reader for one goroutine.
	NewReader(ReadOptions) (Reader, error)
	// Close releases what the source holds open; readers must be closed before.
	Close() error
}

// ReadOptions says how images become pixels.
type ReadOptions struct {
	Filter pixel.Filter  // of the squash; the zero value is Pillow's bilinear
	Decode pixel.Options // limits and colour rules
}

// Reader turns rows into pixels. It holds what one goroutine needs (buffers, a decoder) and belongs to it.
type Reader interface {
	// Read squashes the image of a row to w × h and writes it as RGB bytes, [h, w, 3], into dst, which has exactly h·w·3 bytes.
	Read(row, w, h int, dst []byte) error
	Close() error
}

// subsetSource is a source seen through a list of rows.
type subsetSource struct {
	Source
	rows []int
}

type subsetReader struct {
	Reader
	rows []int
}

func (s *subsetSource) NewReader(opt ReadOptions) (Reader, error) {
	r, err := s.Source.NewReader(opt)
	if err != nil {
		return nil, err
	}
	return &subsetReader{r, s.rows}, nil
}

// ReadFile implements [RawSource] where the source does.
func (s *subsetSource) ReadFile(row int, buf []byte) ([]byte, error) {
	raw, ok := s.Source.(RawSource)
	if !ok {
		return nil, errNoFiles
	}
	return raw.ReadFile(s.rows[row], buf)
}

var errNoFiles = errors.New("the images of this data set are no files")

func (r *subsetReader) Read(row, w, h int, dst []byte) error {
	return r.Reader.Read(r.rows[row], w, h, dst)
}
