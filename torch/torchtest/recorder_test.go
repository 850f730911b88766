package torchtest

import (
	"fmt"
	"testing"
)

// recorder is a testing.TB that keeps what a check reports, to see checks fail.
type recorder struct {
	testing.TB
	messages []string
	cleanups []func()
}

type fatal struct{}

func (r *recorder) Helper()                   {}
func (r *recorder) Error(args ...any)         { r.messages = append(r.messages, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.messages = append(r.messages, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); panic(fatal{}) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); panic(fatal{}) }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }

// record runs a check and then its cleanups, and returns what it reported.
func record(t *testing.T, check func(t testing.TB)) []string {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if e := recover(); e != nil && e != (fatal{}) {
				panic(e)
			}
		}()
		check(r)
	}()
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return r.messages
}
