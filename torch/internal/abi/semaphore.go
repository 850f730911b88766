package abi

import "sync/atomic"

// semaphore admits n callers. Its free path is one atomic operation, because it surrounds calls of half a microsecond.
type semaphore struct {
	n     atomic.Int64 // free slots; below 0 so many callers wait on wake
	total int64
	wake  chan struct{}
}

func newSemaphore(n int) *semaphore {
	s := &semaphore{total: int64(n), wake: make(chan struct{}, 1<<16)}
	s.n.Store(int64(n))
	return s
}

// acquire waits for a slot and returns the flags of the call: whether it has company.
func (s *semaphore) acquire() uint32 {
	n := s.n.Add(-1)
	if n < 0 {
		<-s.wake
	}
	if n == s.total-1 {
		return 0
	}
	return contended
}

func (s *semaphore) release() {
	if s.n.Add(1) <= 0 {
		s.wake <- struct{}{}
	}
}
