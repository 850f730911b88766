// Package fault holds the errors that packages of spml share.
package fault

import (
	"errors"
	"fmt"

	"github.com/gospml/gospml/internal/plain"
)

// Setting says which setting is wrong. Its text is cut where it repeats a long input.
type Setting struct{ Msg string }

func (e *Setting) Error() string { return plain.Cut(e.Msg, plain.MaxError) }

// Settingf makes a *Setting.
func Settingf(format string, a ...any) error { return &Setting{fmt.Sprintf(format, a...)} }

// ErrData is wrapped by errors that a data set's contents, or a folder's, cause, where no more specific type says so.
var ErrData = errors.New("the data do not allow this")
