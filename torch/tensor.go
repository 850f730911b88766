package torch

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch/internal/abi"
)

// Tensor is a handle on a libtorch tensor. The zero value is no tensor; tensors come from the functions of this package.
// A Tensor must not be copied.
type Tensor struct {
	h           atomic.Uint64 // 0 = none, or freed
	scope, slot uint32        // the scope that owns the reference and its place there; scope 0 = this value owns it
	// Set when scope is 0: returns the reference when the value becomes unreachable.
	cleanup runtime.Cleanup
}

// Live counts the tensor handles that exist in the process, those waiting for the garbage collector included.
func Live() int {
	if abi.Load() != nil {
		return 0
	}
	sweepFunctions()
	drain()
	return int(abi.Live())
}

var (
	queueMu sync.Mutex
	queue   []uint64 // handles whose Tensor became unreachable
	queued  atomic.Int64
)

// own makes a Tensor from a handle of a call's result.
func own(h uint64, scope, slot uint32) *Tensor {
	if h == 0 {
		return nil
	}
	t := &Tensor{scope: scope, slot: slot}
	t.h.Store(h)
	if tracing {
		traceMade(h, scope)
	}
	if scope == 0 {
		t.cleanup = runtime.AddCleanup(t, enqueue, h)
	}
	return t
}

// enqueue runs on the collector's goroutines and must not enter libtorch.
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
	abi.Release(q)
}

// Free gives the tensor back at once. Using it afterwards is an error; freeing it again is not. Storage that other
// tensors share stays. A tensor of a scope can be freed early on the goroutine that runs the scope; elsewhere the scope's end does it.
func (t *Tensor) Free() {
	if t == nil {
		return
	}
	if t.scope != 0 {
		h := t.h.Load()
		if h != 0 && scopeAlive(t.scope) && abi.ScopeDrop(t.scope, t.slot, h) {
			t.h.Store(0)
			if tracing {
				traceFreed(h, t.scope)
			}
		}
		return
	}
	h := t.h.Swap(0) // two goroutines may free at once
	if h == 0 {
		return
	}
	if tracing {
		traceFreed(h, 0)
	}
	t.cleanup.Stop()
	runtime.KeepAlive(t) // else the collector may queue the cleanup before Stop
	one := [1]uint64{h}
	relieve(abi.Release(one[:]))
}

// handle returns the libtorch handle or panics with an error of KindHandle.
func (t *Tensor) handle(op string) uint64 {
	if t != nil {
		if h := t.h.Load(); h != 0 && (t.scope == 0 || scopeAlive(t.scope)) {
			return h
		}
	}
	panic(t.unusable(op))
}

func (t *Tensor) unusable(op string) *Error {
	msg := "the tensor was freed, or was not made by this package"
	switch {
	case t == nil:
		msg = "the tensor is nil"
	case t.h.Load() != 0:
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
func (t *Tensor) Same(other *Tensor) bool {
	return t != nil && other != nil && t.handle("is") == other.handle("is")
}

func init() {
	hook.Dropped = func() []uint64 {
		queueMu.Lock()
		defer queueMu.Unlock()
		q := queue
		queue = nil
		queued.Add(-int64(len(q)))
		if tracing {
			for _, h := range q {
				traceFreed(h, 0)
			}
		}
		return q
	}
}
