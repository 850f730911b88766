// Package fault holds the errors that packages of spml share.
package fault

import (
	"errors"
	"fmt"
)

// Setting says which setting is wrong.
type Setting struct{ Msg string }

func (e *Setting) Error() string { return e.Msg }

// Settingf makes a *Setting.
func Settingf(format string, a ...any) error { return &Setting{fmt.Sprintf(format, a...)} }

// ErrData is wrapped by errors that a data set's contents, or a folder's, cause, where no more specific type says so.
var ErrData = errors.New("the data do not allow this")
