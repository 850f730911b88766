package torch

import (
	"runtime"
	"sync/atomic"

	"github.com/gospml/gospml/torch/internal/abi"
)

// scopeSlots holds the ids of the scopes that are open: an id lives in the slot of its remainder.
var (
	scopeSlots [1 << 16]atomic.Uint32
	lastScope  atomic.Uint32
)

func scopeSlot(id uint32) *atomic.Uint32 { return &scopeSlots[id%uint32(len(scopeSlots))] }

func scopeAlive(id uint32) bool { return scopeSlot(id).Load() == id }

// openScope takes the next id whose slot is free. Ids come round after four billion scopes; 0 means no scope.
func openScope() uint32 {
	for range 2 * len(scopeSlots) {
		if id := lastScope.Add(1); id != 0 && scopeSlot(id).CompareAndSwap(0, id) {
			return id
		}
	}
	panic(&Error{Kind: KindInternal, Op: "scope", Msg: "65,536 scopes are open; does a Scope call itself without end?"})
}

// Arena is an open Scope.
type Arena struct{ id uint32 }

// Keep moves tensors of this scope to the scope around it, or, where there is none, to the garbage collector's care.
// Tensors that do not belong to this scope stay where they are. Keep runs on the scope's goroutine, before the scope ends;
// it panics with an error of KindHandle otherwise. It returns its first argument.
func (s *Arena) Keep(ts ...*Tensor) *Tensor {
	for _, t := range ts {
		if t == nil || t.scope != s.id {
			continue
		}
		h := t.handle("keep")
		r := abi.ScopeKeep(t.scope, t.slot, h)
		check("keep", &r)
		if r.N == 0 {
			panic(&Error{Kind: KindHandle, Op: "keep", Msg: "the scope belongs to another goroutine; keep the tensor on the one that runs the scope"})
		}
		t.scope, t.slot = r.Scope, r.Slot
		if t.scope == 0 {
			t.cleanup = runtime.AddCleanup(t, enqueue, h)
		}
		if tracing {
			traceMoved(h, s.id, t.scope)
		}
		pressure(r.Bytes)
	}
	if len(ts) == 0 {
		return nil
	}
	return ts[0]
}

// Scope runs f on a locked OS thread and frees every tensor that operations made on it, except those that Keep moved
// out. Scopes nest. Goroutines that f starts are outside the scope. Parameters, gradients and optimizer state that were made
// before are untouched.
func Scope(f func(s *Arena)) {
	mustLoad()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	id := openScope()
	abi.ScopeBegin(id)
	defer func() {
		scopeSlot(id).Store(0)
		abi.ScopeEnd()
		if tracing {
			traceScopeEnded(id)
		}
	}()
	f(&Arena{id})
}
