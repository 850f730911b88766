package torch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/torch/internal/abi"
)

// Tensor is a handle on a libtorch tensor. The zero value is no tensor; tensors come from the functions of this package.
type Tensor struct {
	h     uint64
	scope uint32 // 0 = owned by this value
	// Set when scope is 0: returns the reference when the value becomes unreachable.
	cleanup runtime.Cleanup
}

// Live counts the tensor handles that exist in the process, those waiting for the garbage collector included.
func Live() int {
	if abi.Load() != nil {
		return 0
	}
	drain()
	return int(abi.Live())
}

// LiveBytes is the storage that tensors outside scopes hold, in bytes, as far as the handles' own results account for it.
func LiveBytes() int64 { return liveBytes.Load() }

// collectAt is how many bytes of new storage outside scopes start a collection, at least; see pressure.
const collectAt = 128 << 20

var (
	freshBytes atomic.Int64 // new storage outside scopes since the last collection
	liveBytes  atomic.Int64

	queueMu   sync.Mutex
	queue     []uint64 // handles whose Tensor became unreachable
	queued    atomic.Int64
	collectMu sync.Mutex
)

// own makes a Tensor from a handle of a call's result.
func own(h uint64, scope uint32) *Tensor {
	if h == 0 {
		return nil
	}
	t := &Tensor{h: h, scope: scope}
	if tracing {
		traceMade(h, scope)
	}
	if scope == 0 {
		t.cleanup = runtime.AddCleanup(t, enqueue, h)
	}
	return t
}

// enqueue runs on the collector's goroutine and must not enter libtorch.
func enqueue(h uint64) {
	queueMu.Lock()
	queue = append(queue, h)
	queueMu.Unlock()
	queued.Add(1)
}

// drain releases what the collector queued.
func drain() {
	queueMu.Lock()
	q := queue
	queue = nil
	queueMu.Unlock()
	if len(q) == 0 {
		return
	}
	queued.Add(-int64(len(q)))
	if tracing {
		for _, h := range q {
			traceFreed(h, 0)
		}
	}
	liveBytes.Add(-int64(abi.Release(q)))
}

// pressure accounts for new storage and runs the garbage collector when much of it came since the last time.
// Go's collector sees handles of a few bytes only, so it would wait for ever.
func pressure(bytes uint64) {
	if bytes == 0 {
		return
	}
	liveBytes.Add(int64(bytes))
	if fresh := freshBytes.Add(int64(bytes)); fresh < collectAt || fresh < liveBytes.Load()/2 {
		return
	}
	collect()
}

func collect() {
	if !collectMu.TryLock() {
		return
	}
	defer collectMu.Unlock()
	freshBytes.Store(0)
	// Cleanups run after runtime.GC returns: the sentinel's tells when this cycle's have been queued.
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
}

// Free gives the tensor back at once. Using it afterwards is an error; freeing it again is not. Storage that other
// tensors share stays. A tensor of a scope can be freed early on the goroutine that runs the scope; elsewhere the scope's end does it.
func (t *Tensor) Free() {
	if t == nil || t.h == 0 {
		return
	}
	h := t.h
	if t.scope == 0 {
		t.h = 0
		if tracing {
			traceFreed(h, 0)
		}
		t.cleanup.Stop()
		one := [1]uint64{h}
		liveBytes.Add(-int64(abi.Release(one[:])))
		return
	}
	if scopeAlive(t.scope) && abi.ScopeDrop(h) {
		t.h = 0
		if tracing {
			traceFreed(h, t.scope)
		}
	}
}

// handle returns the libtorch handle or panics with an error of KindHandle.
func (t *Tensor) handle(op string) uint64 {
	if t == nil || t.h == 0 || t.scope != 0 && !scopeAlive(t.scope) {
		panic(t.unusable(op))
	}
	return t.h
}

func (t *Tensor) unusable(op string) *Error {
	msg := "the tensor was freed, or was not made by this package"
	switch {
	case t == nil:
		msg = "the tensor is nil"
	case t.h != 0:
		msg = "the tensor is used after its scope ended; keep it with the scope's Keep"
	}
	return &Error{Kind: KindHandle, Op: op, Msg: msg}
}

func (t *Tensor) describe(op string) abi.Desc {
	var d abi.Desc
	r := abi.Describe(t.handle(op), &d)
	runtime.KeepAlive(t)
	if r.Kind != abi.OK {
		panic(&Error{Kind: Kind(r.Kind), Op: op, Msg: r.Message()})
	}
	return d
}

// Shape returns the sizes; nil for a scalar's empty shape is never returned.
func (t *Tensor) Shape() []int {
	d := t.describe("shape")
	s := make([]int, d.NDim)
	for i := range s {
		s[i] = int(d.Sizes[i])
	}
	return s
}

// Strides returns the steps between neighbours in each dimension, in elements.
func (t *Tensor) Strides() []int {
	d := t.describe("stride")
	s := make([]int, d.NDim)
	for i := range s {
		s[i] = int(d.Strides[i])
	}
	return s
}

// Dim is the number of dimensions.
func (t *Tensor) Dim() int { return int(t.describe("dim").NDim) }

// Size is the length of one dimension; negative counts from the end.
func (t *Tensor) Size(dim int) int {
	d := t.describe("size")
	i := dim
	if i < 0 {
		i += int(d.NDim)
	}
	if i < 0 || i >= int(d.NDim) {
		panic(&Error{Kind: KindIndex, Op: "size", Shapes: [][]int{t.Shape()}, Msg: "dimension out of range: " + itoa(dim)})
	}
	return int(d.Sizes[i])
}

// Numel is the number of elements.
func (t *Tensor) Numel() int { return int(t.describe("numel").Numel) }

// DType is the element type.
func (t *Tensor) DType() DType { return DType(t.describe("dtype").DType) }

// Device is where the tensor lives.
func (t *Tensor) Device() Device { return deviceOf(t.describe("device").Device) }

// IsContiguous says whether elements lie in row-major order without gaps.
func (t *Tensor) IsContiguous() bool {
	return t.describe("is_contiguous").Flags&abi.FlagContiguous != 0
}

// IsChannelsLast says whether a 4-dimensional tensor lies in NHWC order.
func (t *Tensor) IsChannelsLast() bool {
	return t.describe("is_contiguous").Flags&abi.FlagChannelsLast != 0
}

// RequiresGrad says whether autograd records operations on the tensor.
func (t *Tensor) RequiresGrad() bool {
	return t.describe("requires_grad").Flags&abi.FlagRequiresGrad != 0
}

// IsLeaf says whether the tensor was not computed by a recorded operation.
func (t *Tensor) IsLeaf() bool { return t.describe("is_leaf").Flags&abi.FlagLeaf != 0 }

// Version counts the in-place changes, as PyTorch's _version; -1 for tensors made in Inference.
func (t *Tensor) Version() int { return int(t.describe("_version").Version) }

// Same says whether both handles show one libtorch tensor (PyTorch's `is`).
func (t *Tensor) Same(other *Tensor) bool { return t != nil && other != nil && t.h == other.h }
