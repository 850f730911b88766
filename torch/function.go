package torch

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/torch/internal/abi"
)

// goFunctions are the Go functions that graphs refer to, by id: func(args []*Tensor) []*Tensor.
var (
	goFunctions   sync.Map
	lastFunction  atomic.Uint64
	madeFunctions atomic.Bool // some exist
)

func init() { abi.GoFunction = runGoFunction }

// newFunction gives f an id and forgets functions whose graphs are gone.
func newFunction(f func(args []*Tensor) []*Tensor) uint64 {
	sweepFunctions()
	madeFunctions.Store(true)
	id := lastFunction.Add(1)
	goFunctions.Store(id, f)
	return id
}

func sweepFunctions() {
	if !madeFunctions.Load() {
		return
	}
	var ids [64]uint64
	for {
		n := abi.DeadFunctions(ids[:])
		for _, id := range ids[:n] {
			goFunctions.Delete(id)
		}
		if n < len(ids) {
			return
		}
	}
}

// runGoFunction is called by backward, on any OS thread.
func runGoFunction(id uint64, args *abi.Result, out []uint64) (kind int, msg string) {
	f, ok := goFunctions.Load(id)
	if !ok {
		return abi.Internal, "the Go function of the graph is gone"
	}
	kind, msg = abi.Runtime, "a Go function of the graph ended its goroutine (runtime.Goexit, which t.FailNow calls)"
	onCoroutine(func() { kind, msg = callGoFunction(f.(func([]*Tensor) []*Tensor), args, out) })
	return kind, msg
}

// onCoroutine runs f, which must not panic, on a goroutine of its own and on the OS thread of the caller, where its
// modes and scopes are. When f calls runtime.Goexit, which cannot be stopped, that goroutine ends and onCoroutine
// returns. On the caller's own, Goexit would skip the C++ frames of backward without unwinding them: gradients would
// stay off on that thread.
func onCoroutine(f func()) {
	type ended struct{}
	next, _ := iter.Pull(func(func(struct{}) bool) {
		returned := false
		defer func() {
			if !returned {
				panic(ended{}) // next hands on a panic where it would hand on Goexit
			}
		}()
		f()
		returned = true
	})
	defer func() {
		if p := recover(); p != nil && p != any(ended{}) {
			panic(p)
		}
	}()
	next()
}

// callGoFunction turns a panic into an error.
func callGoFunction(f func([]*Tensor) []*Tensor, args *abi.Result, out []uint64) (kind int, msg string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Error:
			kind, msg = int(p.Kind), p.Error()
			if p.Kind == 0 {
				kind = abi.Runtime
			}
		default:
			kind, msg = abi.Runtime, fmt.Sprintf("panic in a Go function of the graph: %v\n%s", p, debug.Stack())
		}
	}()
	results := f(ownList(args))
	if len(results) != len(out) {
		return abi.Value, fmt.Sprintf("the Go function returned %d gradients, want %d, one for each input", len(results), len(out))
	}
	for i, t := range results {
		if t != nil {
			out[i] = abi.Own(t.handle("backward"))
		}
	}
	runtime.KeepAlive(results)
	return abi.OK, ""
}

// Function is an operation with a gradient of its own, written in Go (torch.autograd.Function).
//
// Forward computes the outputs from the inputs, without recording. Backward gets the gradient of each output (nil where
// there is none) and returns one for each input, nil for inputs that need none. What Backward reads of the inputs and
// outputs goes through c.Save and c.Saved, so that libtorch notices in-place changes and frees it with the graph; a
// tensor that Forward stores elsewhere keeps the graph alive. Under CreateGraph Backward's own operations are recorded:
// second derivatives follow.
//
// Backward runs on the OS thread of the goroutine that called Backward or Grad, which waits, so modes and scopes hold;
// for CUDA tensors on a thread of libtorch's. Several graphs may run at once. A panic with *Error in it becomes the
// panic of that call; other panics become one with their text, and so does runtime.Goexit, which t.FailNow calls. What
// it locks with runtime.LockOSThread it must unlock.
type Function interface {
	Forward(c *FunctionContext, inputs []*Tensor) []*Tensor
	Backward(c *FunctionContext, grads []*Tensor) []*Tensor
}

// FunctionContext carries what Forward leaves to Backward.
type FunctionContext struct {
	// Value is for numbers, shapes and the like.
	Value any

	needs    []bool
	saving   []*Tensor
	saved    []*Tensor
	constant []*Tensor
}

// Save keeps inputs or outputs for Backward; nil elements stay nil.
func (c *FunctionContext) Save(ts ...*Tensor) { c.saving = ts }

// Saved are the tensors that Forward gave to Save.
func (c *FunctionContext) Saved() []*Tensor { return c.saved }

// NeedsGrad says whether the gradient of an input is wanted.
func (c *FunctionContext) NeedsGrad(input int) bool { return c.needs[input] }

// NotDifferentiable marks outputs without a gradient, such as indices.
func (c *FunctionContext) NotDifferentiable(ts ...*Tensor) { c.constant = ts }

// Apply runs f and records it. Outputs that are an input, or a view of one, are copied.
func Apply(f Function, inputs ...*Tensor) []*Tensor {
	const op = "function"
	in := required(op, inputs)
	c := &FunctionContext{needs: make([]bool, len(inputs))}
	for i, t := range inputs {
		c.needs[i] = t.RequiresGrad()
	}
	var outputs []*Tensor
	NoGrad(func() { outputs = f.Forward(c, inputs) })
	out := required(op, outputs)
	var saved []uint64
	present := make([]int, len(c.saving)) // place among the saved, -1 for nil
	for i, t := range c.saving {
		if present[i] = -1; t != nil {
			present[i] = len(saved)
			saved = append(saved, t.handle(op))
		}
	}
	differentiable := make([]uint8, len(outputs))
	for i, t := range outputs {
		if d := t.DType(); d.IsFloat() || d == Complex64 {
			differentiable[i] = 1
		}
		for _, k := range c.constant {
			if k == t {
				differentiable[i] = 0
			}
		}
	}
	needs, value, n := c.needs, c.Value, len(outputs)
	id := newFunction(func(args []*Tensor) []*Tensor {
		b := &FunctionContext{Value: value, needs: needs, saved: make([]*Tensor, len(present))}
		for i, at := range present {
			if at >= 0 {
				b.saved[i] = args[n+at]
			}
		}
		grads := f.Backward(b, args[:n])
		if len(grads) != len(needs) {
			panic(&Error{Kind: KindValue, Op: op, Msg: fmt.Sprintf("%T.Backward returned %d gradients for %d inputs", f, len(grads), len(needs))})
		}
		return grads
	})
	r := abi.Node(id, in, out, differentiable, saved)
	check(op, &r, inputs...)
	runtime.KeepAlive(inputs)
	runtime.KeepAlive(outputs)
	runtime.KeepAlive(c)
	if r.N == 0 {
		return outputs
	}
	recorded := ownList(&r)
	for _, t := range outputs {
		if !contains(inputs, t) {
			t.Free() // the recorded handle shows the same tensor
		}
	}
	return recorded
}

func contains(ts []*Tensor, t *Tensor) bool {
	for _, x := range ts {
		if x == t {
			return true
		}
	}
	return false
}

// Hook is a function that sees a gradient.
type Hook struct {
	t  *Tensor
	at uint64
}

// RegisterHook calls f with the gradient of t whenever backward computes it; what f returns replaces it, nil leaves it
// as it is. t must require a gradient. f runs where Function.Backward runs. A hook holds t's handle: Remove it, or let
// t go.
func (t *Tensor) RegisterHook(f func(grad *Tensor) *Tensor) *Hook {
	id := newFunction(func(args []*Tensor) []*Tensor { return []*Tensor{f(args[0])} })
	r := abi.Hook(t.handle("register_hook"), id)
	check("register_hook", &r, t)
	runtime.KeepAlive(t)
	return &Hook{t, r.W[0]}
}

// Remove takes the hook off.
func (h *Hook) Remove() {
	r := abi.Unhook(h.t.handle("remove_hook"), h.at)
	check("remove_hook", &r, h.t)
	runtime.KeepAlive(h)
}

// OnAccumulate calls f with t itself whenever backward has changed t.Grad (register_post_accumulate_grad_hook). t must
// be a leaf that requires a gradient; it has one such function, nil takes it off. f may clear the gradient and change
// the leaf: no part of backward that is still to come reads it. f runs where Function.Backward runs. What f refers to
// lives until it is taken off.
func (t *Tensor) OnAccumulate(f func(leaf *Tensor)) {
	const op = "on_accumulate"
	var id uint64
	if f != nil {
		id = newFunction(func(args []*Tensor) []*Tensor { f(args[0]); return nil })
	}
	r := abi.Accumulated(t.handle(op), id)
	check(op, &r, t)
	runtime.KeepAlive(t)
}

// Checkpoint runs f without keeping what lies between its inputs and outputs; backward computes f a second time to get
// it (torch.utils.checkpoint, Chen et al. 2016, arXiv:1604.06174). The default random generator and autocast are as
// they were in the first run, so dropout drops the same elements. Parameters that f uses get their gradients; use
// Backward, not Grad, behind it. f must compute the same both times: batch normalisation in training mode counts its
// batch twice.
func Checkpoint(f func(inputs []*Tensor) []*Tensor, inputs ...*Tensor) []*Tensor {
	if !GradEnabled() {
		return f(inputs)
	}
	// A leaf of its own makes the function part of the graph also where only parameters require gradients.
	leaf := Zeros(S(), RequiresGrad)
	return Apply(&checkpoint{f: f, autocast: autocastNow()}, append([]*Tensor{leaf}, inputs...)...)
}

type checkpoint struct {
	f        func(inputs []*Tensor) []*Tensor
	autocast []autocastState
}

func (k *checkpoint) Forward(c *FunctionContext, inputs []*Tensor) []*Tensor {
	c.Save(append([]*Tensor{RNGState()}, inputs[1:]...)...)
	var out []*Tensor
	Scope(func(s *Arena) { // what lies between is freed here, not at the end of the caller's scope
		out = k.f(inputs[1:])
		s.Keep(out...)
	})
	return out
}

func (k *checkpoint) Backward(c *FunctionContext, grads []*Tensor) (result []*Tensor) {
	Scope(func(s *Arena) {
		result = k.backward(c, grads)
		s.Keep(result...)
	})
	return result
}

func (k *checkpoint) backward(c *FunctionContext, grads []*Tensor) []*Tensor {
	before := RNGState()
	defer before.Free()
	defer SetRNGState(before)
	SetRNGState(c.saved[0])
	inputs := c.saved[1:]
	result := make([]*Tensor, 1+len(inputs))
	leaves := make([]*Tensor, len(inputs))
	for i, t := range inputs {
		leaves[i] = t.Detach()
		if c.NeedsGrad(i + 1) {
			leaves[i].SetRequiresGrad(true)
		}
	}
	EnableGrad(func() {
		withAutocast(k.autocast, func() {
			var roots, given []*Tensor
			for i, y := range k.f(leaves) {
				if grads[i] != nil && y.RequiresGrad() {
					roots, given = append(roots, y), append(given, grads[i])
				}
			}
			if len(roots) > 0 {
				Backward(roots, WithGradient(given...))
			}
		})
	})
	for i, t := range leaves {
		if c.NeedsGrad(i + 1) {
			result[i+1] = t.Grad()
		}
	}
	return result
}

// Jacobian is the derivative of f at x, of shape f(x)'s and then x's (torch.autograd.functional.jacobian). It runs
// backward once for each element of f(x).
func Jacobian(f func(x *Tensor) *Tensor, x *Tensor) *Tensor { return jacobian(f, x, false) }

func jacobian(f func(x *Tensor) *Tensor, x *Tensor, create bool) *Tensor {
	var rows []*Tensor
	leaf := x
	if !create {
		leaf = x.Detach().SetRequiresGrad(true)
	}
	y := f(leaf)
	flat := y.Reshape(-1)
	for i := range flat.Numel() {
		opts := []BackwardOption{RetainGraph, AllowUnused}
		if create {
			opts = append(opts, CreateGraph)
		}
		g := Grad([]*Tensor{flat.Select(0, i)}, []*Tensor{leaf}, opts...)[0]
		if g == nil {
			g = leaf.Detach().ZerosLike()
		}
		rows = append(rows, g)
	}
	shape := append(y.Shape(), x.Shape()...)
	if len(rows) == 0 {
		return Zeros(shape, x.DType(), x.Device())
	}
	return Stack(rows, 0).Reshape(shape...)
}

// Hessian is the second derivative of a function with one value at x, of shape x's twice
// (torch.autograd.functional.hessian).
func Hessian(f func(x *Tensor) *Tensor, x *Tensor) *Tensor {
	return Jacobian(func(leaf *Tensor) *Tensor {
		y := f(leaf)
		if y.Numel() != 1 {
			panic(&Error{Kind: KindValue, Op: "hessian", Shapes: [][]int{y.Shape()}, Msg: "the function must have one value"})
		}
		g := Grad([]*Tensor{y.Reshape()}, []*Tensor{leaf}, CreateGraph, AllowUnused)[0]
		if g == nil || !g.RequiresGrad() { // linear
			return leaf.MulScalar(0)
		}
		return g
	}, x)
}

// DetectAnomaly runs f while backward, on every thread, checks each gradient for NaN and panics with the name of the
// operation that made it (torch.autograd.detect_anomaly). It makes everything slower.
func DetectAnomaly(f func()) {
	before := getFlag(abi.FlagAnomaly)
	setFlag(abi.FlagAnomaly, 1)
	defer setFlag(abi.FlagAnomaly, before)
	f()
}
