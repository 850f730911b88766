// Package engine is what must happen before libtorch's autograd engine starts: with the first backward of a process it makes a thread for each device that is known
// then, and gradients on a device that comes later have nobody to compute them.
package engine

import (
	"sync"
	"sync/atomic"
)

var (
	before  []func()
	once    sync.Once
	started atomic.Bool
)

// Before has f run once, ahead of the first backward. It is for init functions.
func Before(f func()) { before = append(before, f) }

// Start runs what is to come before the first backward, the first time.
func Start() {
	once.Do(func() {
		for _, f := range before {
			f()
		}
		started.Store(true)
	})
}

// Started says whether a backward has begun.
func Started() bool { return started.Load() }
