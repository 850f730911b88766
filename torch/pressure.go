package torch

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/torch/internal/abi"
)

// Go's collector sees handles of a few bytes, not the storage behind them, so on its own it would wait until memory is
// full. The bytes of new storage outside scopes therefore start it.

// collectAt is how many bytes start a collection, at least. It is a quarter of what C code holds, where that is more, and
// half of what Go code holds, since that is what a collection has to look through.
const collectAt = 32 << 20

var (
	fresh      atomic.Int64 // bytes that came into the collector's care since the last collection, less what was freed
	freshLimit atomic.Int64
	collectMu  sync.Mutex
)

func init() { freshLimit.Store(collectAt) }

// pressure accounts for new storage and collects when much came since the last time.
func pressure(bytes uint64) {
	if bytes != 0 && fresh.Add(int64(bytes)) >= freshLimit.Load() {
		collect()
	}
}

// relieve takes freed storage off the account. It may be storage that was not on it: a scope's, or an older one.
func relieve(bytes uint64) {
	if bytes != 0 && fresh.Add(-int64(bytes)) < 0 {
		fresh.Store(0)
	}
}

// collect runs the garbage collector and releases what it found. One goroutine does it, the others go on.
func collect() {
	if !collectMu.TryLock() {
		return
	}
	defer collectMu.Unlock()
	fresh.Store(0)
	// Cleanups run after runtime.GC returns: a sentinel's tells that this cycle's are under way. A straggler waits for the
	// next call.
	done := make(chan struct{})
	func() {
		s := new([4]*int)
		runtime.AddCleanup(s, func(c chan struct{}) { close(c) }, done)
	}()
	runtime.GC()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	drain()
	goHeap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(goHeap)
	freshLimit.Store(max(collectAt, abi.HeapInUse()/4, int64(goHeap[0].Value.Uint64()/2)))
}
