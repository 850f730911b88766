package abi

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSemaphore(t *testing.T) {
	s := newSemaphore(3)
	var inside, most, alone atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 500 {
				if s.acquire() == 0 {
					alone.Add(1)
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				runtime.Gosched()
				inside.Add(-1)
				s.release()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.EqualValues(t, 3, s.n.Load(), "all slots came back")
	require.Zero(t, len(s.wake))
	require.Zero(t, s.acquire(), "the only caller is not contended")
	require.EqualValues(t, contended, s.acquire())
	s.release()
	s.release()
}
