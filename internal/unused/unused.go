// Package unused hands the tensors that a program has dropped but not freed to the CUDA allocator, when it has no room.
package unused

import (
	"runtime"
	"time"
)

// Take returns the handles of tensors that the garbage collector has found to be unreachable, and forgets them: the caller releases them. Package
// torch sets it.
var Take func() []uint64

// Collect runs the collector and returns what Take gives when the cleanups of that collection have run.
func Collect() []uint64 {
	if Take == nil {
		return nil
	}
	done := make(chan struct{})
	sentinel := new([16]*int) // cleanups run after runtime.GC returns; this one is found in the same collection
	runtime.AddCleanup(sentinel, func(struct{}) { close(done) }, struct{}{})
	sentinel = nil
	runtime.GC()
	select {
	case <-done:
		time.Sleep(time.Millisecond) // for those queued beside it
	case <-time.After(500 * time.Millisecond):
	}
	return Take()
}
