// Package engine is what must happen before libtorch is used, and before its autograd engine starts: with the first
// backward of a process it makes a thread for each device that is known then, and gradients on a device that comes
// later have nobody to compute them.
package engine

import (
	"sync"
	"sync/atomic"
)

var (
	loaded  []func()
	before  []func()
	once    sync.Once
	started atomic.Bool
)

// Loaded has f run once, when libtorch is open and before anything of it is called: what libtorch finds of a card at
// its first look (a seed, a convolution, a backward) it keeps for the life of the process. f must not call package
// torch. It is for init functions.
func Loaded(f func()) { loaded = append(loaded, f) }

// Open runs what Loaded was given; it is for the loader.
func Open() {
	for _, f := range loaded {
		f()
	}
}

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
