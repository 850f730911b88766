package data

import (
	"fmt"
	"strconv"

	"github.com/gospml/gospml/internal/plain"
)

// FormatError says that a data set's own files are wrong: the user must change them. (Errors of reading or writing stay
// *fs.PathError.)
type FormatError struct {
	File string // the file, or the data set's name
	Line int    // 1-based line in the file, 0 where it does not apply
	Msg  string
}

func (e *FormatError) Error() string {
	at := plain.Text(e.File)
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	return plain.Message("data: " + at + ": " + e.Msg)
}

func formatError(file string, line int, format string, args ...any) error {
	return &FormatError{File: file, Line: line, Msg: fmt.Sprintf(format, args...)}
}

// Broken is an image that could not be read. Training goes on without it.
type Broken struct {
	Row  int
	Name string
	Err  error
}

func (b Broken) Error() string {
	return plain.Message(fmt.Sprintf("row %d, %s: %s", b.Row, plain.Text(b.Name), plain.Error(b.Err)))
}

func (b Broken) Unwrap() error { return b.Err }
