package torch

import (
	"runtime"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch/internal/abi"
)

// BackwardOption changes Backward and Grad.
type BackwardOption func(*backwardOptions)

type backwardOptions struct {
	gradient       []*Tensor
	retain, create bool
	unused         bool
	inputs         []*Tensor
}

// RetainGraph keeps the graph for another backward.
func RetainGraph(o *backwardOptions) { o.retain = true }

// CreateGraph records the backward itself, for second derivatives; it implies RetainGraph.
func CreateGraph(o *backwardOptions) { o.retain, o.create = true, true }

// AllowUnused lets Grad return nil for inputs that the outputs do not depend on.
func AllowUnused(o *backwardOptions) { o.unused = true }

// WithGradient gives the gradients of the roots, one for each; needed for roots with more than one element.
func WithGradient(g ...*Tensor) BackwardOption { return func(o *backwardOptions) { o.gradient = g } }

// OnlyInputs restricts Backward to accumulating into these leaves.
func OnlyInputs(ts ...*Tensor) BackwardOption { return func(o *backwardOptions) { o.inputs = ts } }

func handles(op string, ts []*Tensor) []uint64 {
	if len(ts) == 0 {
		return nil
	}
	h := make([]uint64, len(ts))
	for i, t := range ts {
		if t != nil {
			h[i] = t.handle(op)
		}
	}
	return h
}

// required refuses nil elements.
func required(op string, ts []*Tensor) []uint64 {
	for _, t := range ts {
		if t == nil {
			panic(t.unusable(op))
		}
	}
	return handles(op, ts)
}

// Backward computes the gradient of t with respect to the leaves and adds it to their Grad.
func (t *Tensor) Backward(opts ...BackwardOption) { Backward([]*Tensor{t}, opts...) }

// Backward is the backward of several roots at once.
func Backward(roots []*Tensor, opts ...BackwardOption) {
	var o backwardOptions
	for _, f := range opts {
		f(&o)
	}
	if o.gradient != nil && len(o.gradient) != len(roots) {
		panic(&Error{Kind: KindValue, Op: "backward", Msg: "got " + itoa(len(o.gradient)) + " gradients for " + itoa(len(roots)) + " roots"})
	}
	if queued.Load() > 0 {
		drain()
	}
	hook.Start()
	r := abi.Backward(required("backward", roots), handles("backward", o.gradient), required("backward", o.inputs), o.retain, o.create)
	sweepFunctions()
	check("backward", &r, roots...)
	runtime.KeepAlive(roots)
	runtime.KeepAlive(o.gradient)
	runtime.KeepAlive(o.inputs)
}

// Grad returns the gradients of outputs with respect to inputs without touching any Grad field, as torch.autograd.grad.
func Grad(outputs, inputs []*Tensor, opts ...BackwardOption) []*Tensor {
	var o backwardOptions
	for _, f := range opts {
		f(&o)
	}
	if o.gradient != nil && len(o.gradient) != len(outputs) {
		panic(&Error{Kind: KindValue, Op: "grad", Msg: "got " + itoa(len(o.gradient)) + " gradients for " + itoa(len(outputs)) + " outputs"})
	}
	hook.Start()
	r := abi.Grad(required("grad", outputs), required("grad", inputs), handles("grad", o.gradient), o.retain, o.create, o.unused)
	check("grad", &r, outputs...)
	runtime.KeepAlive(outputs)
	runtime.KeepAlive(inputs)
	runtime.KeepAlive(o.gradient)
	return ownList(&r)
}

// Grad is the accumulated gradient of a leaf, nil before the first backward.
func (t *Tensor) Grad() *Tensor { return Grads([]*Tensor{t})[0] }

// Grads returns the accumulated gradients of many leaves in one call; nil where there is none.
func Grads(ts []*Tensor) []*Tensor {
	r := abi.GetGrads(required("grad", ts))
	check("grad", &r)
	runtime.KeepAlive(ts)
	return ownList(&r)
}

// SetGrad replaces the accumulated gradient; nil clears it.
func (t *Tensor) SetGrad(g *Tensor) {
	if Recording() {
		notRecorded("set_grad", "replays would not set it again; use Copy_ on the gradient")
	}
	var gh uint64
	if g != nil {
		gh = g.handle("set_grad")
	}
	r := abi.SetGrad(t.handle("set_grad"), gh)
	check("set_grad", &r, t, g)
	runtime.KeepAlive(t)
	runtime.KeepAlive(g)
}

// ZeroGrad clears the gradients of many leaves in one call: to nil, or with keep to zeros in place.
func ZeroGrad(ts []*Tensor, keep bool) {
	if len(ts) == 0 {
		return
	}
	r := abi.ZeroGrads(required("zero_grad", ts), !keep)
	check("zero_grad", &r)
	runtime.KeepAlive(ts)
}

// GradFn is the name of the recorded operation that computed t, such as "MulBackward0"; "" for a leaf.
func (t *Tensor) GradFn() string {
	r := abi.GradFn(t.handle("grad_fn"))
	check("grad_fn", &r, t)
	runtime.KeepAlive(t)
	if r.N == 0 {
		return ""
	}
	return abi.Text(r.W[0])
}

// SetRequiresGrad sets whether autograd records operations on a leaf and returns the tensor.
func (t *Tensor) SetRequiresGrad(on bool) *Tensor {
	r := abi.SetRequiresGrad(t.handle("requires_grad_"), on)
	check("requires_grad_", &r, t)
	runtime.KeepAlive(t)
	return t
}

// SetData makes t show the storage of source, keeping its identity (parameters that an optimizer knows stay known).
func (t *Tensor) SetData(source *Tensor) {
	if Recording() {
		notRecorded("set_data", "replays would not set it again; use Copy_")
	}
	r := abi.SetData(t.handle("set_data"), source.handle("set_data"))
	check("set_data", &r, t, source)
	runtime.KeepAlive(t)
	runtime.KeepAlive(source)
}

// Retain makes a second handle of the same tensor, owned by the current scope or the garbage collector.
func (t *Tensor) Retain() *Tensor {
	r := abi.Retain(t.handle("retain"))
	check("retain", &r, t)
	runtime.KeepAlive(t)
	return ownOne(&r)
}
