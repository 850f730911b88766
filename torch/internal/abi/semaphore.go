package abi

import "sync/atomic"

// semaphore admits n callers. Its free path is one atomic operation, because it surrounds calls of half a microsecond.
type semaphore struct {
	n    atomic.Int64
	wake chan struct{}
}

func newSemaphore(n int) *semaphore {
	s := &semaphore{wake: make(chan struct{}, 1<<16)}
	s.n.Store(int64(n))
	return s
}

func (s *semaphore) acquire() {
	if s.n.Add(-1) < 0 {
		<-s.wake
	}
}

func (s *semaphore) release() {
	if s.n.Add(1) <= 0 {
		s.wake <- struct{}{}
	}
}
