// Package caught turns a panic into an error, so that a mistake in a function or goroutine of ours does not end the
// program that calls it.
package caught

import (
	"fmt"
	"runtime/debug"
)

// Error is a panic as an error. The stack is no part of its sentence.
type Error struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked, as debug.Stack gives it
}

// most is how many bytes of a panic's value a sentence holds.
const most = 500

func (e *Error) Error() string {
	s := fmt.Sprint(e.Value)
	if len(s) > most {
		s = s[:most] + "…"
	}
	return "internal error, please report it: " + s
}

// Unwrap is the error that panic was called with, nil for another value.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Recover makes a panic of the function that defers it its error: defer caught.Recover(&err).
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Error{Value: p, Stack: debug.Stack()}
	}
}

// Do runs f; its panic is the error.
func Do(f func() error) (err error) {
	defer Recover(&err)
	return f()
}
