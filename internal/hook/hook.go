// Package hook is what packages torch, torch/dist and cuda have of each other without a circle of imports: torch knows
// no card, cuda knows torch. Its variables are set by init functions, and not changed after.
package hook

import (
	"runtime"
	"sync/atomic"
	"time"
)

var (
	loaded  []func()
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

// Start says that the first backward begins: autograd makes a thread for each device that is known then, and gradients
// on a device that comes later have nobody to compute them.
func Start() {
	if !started.Load() { // a write for each backward would be shared by all goroutines
		started.Store(true)
	}
}

// Started says whether a backward has begun.
func Started() bool { return started.Load() }

// Graph records what f queues on a device; replay launches it again and release frees it. Package cuda sets it; nil
// where that is not linked.
var Graph func(device int, f func() error) (replay, release func() error, err error)

// Collective is what the processes of a group of package torch/dist talk through between devices of a type.
type Collective struct {
	Name   string // NCCL
	Attach func(group, store uint64, rank, size int, timeout time.Duration) error
}

// Collectives are those by torch.DeviceType. Package cuda puts NCCL there, for cards.
var Collectives = map[int]Collective{}

// Dropped returns the handles of tensors that the garbage collector has found to be unreachable, and forgets them: the
// caller releases them. Package torch sets it.
var Dropped func() []uint64

// Collect runs the collector and returns what Dropped gives when the cleanups of that collection have run: for the CUDA
// allocator, when it has no room.
func Collect() []uint64 {
	if Dropped == nil {
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
	return Dropped()
}
