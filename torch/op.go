package torch

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/gospml/gospml/torch/internal/abi"
)

func itoa(i int) string { return strconv.Itoa(i) }

// opRef is one operator of the dispatcher, looked up at its first call.
type opRef struct {
	name, overload string
	id             atomic.Uint64
}

func (o *opRef) get() uint64 {
	if id := o.id.Load(); id != 0 {
		return id
	}
	mustLoad()
	r := abi.Op(o.name, o.overload)
	if r.Kind != abi.OK {
		panic(&Error{Kind: Kind(r.Kind), Op: o.name, Msg: r.Message()})
	}
	o.id.Store(r.W[0])
	return r.W[0]
}

// args builds the frame of one call. It lives on the stack; far holds what does not fit into the frame.
type args struct {
	op  *opRef
	f   abi.Frame
	far []uint64
}

func (a *args) push(tag uint8, w uint64) {
	i := a.f.N
	if i >= abi.MaxArgs {
		panic(&Error{Kind: KindCall, Op: a.op.name, Msg: "more than 20 arguments"})
	}
	a.f.Tag[i], a.f.W[i] = tag, w
	a.f.N = i + 1
}

func (a *args) none()              { a.push(abi.None, 0) }
func (a *args) def()               { a.push(abi.Default, 0) }
func (a *args) int(v int)          { a.push(abi.Int, uint64(v)) }
func (a *args) float(v float64)    { a.push(abi.Double, math.Float64bits(v)) }
func (a *args) dtype(d DType)      { a.push(abi.Int, uint64(d)) }
func (a *args) device(d Device)    { a.push(abi.Device, d.word()) }
func (a *args) mem(m MemoryFormat) { a.push(abi.Int, uint64(m)) }

func (a *args) bool(v bool) {
	if v {
		a.push(abi.Bool, 1)
	} else {
		a.push(abi.Bool, 0)
	}
}

func (a *args) gen(g *Generator) {
	if g == nil {
		a.none()
		return
	}
	a.push(abi.Generator, g.handle(a.op.name))
}

// tensor pushes a tensor; nil becomes None, which the operator refuses where it needs one.
func (a *args) tensor(t *Tensor) {
	if t == nil {
		a.none()
		return
	}
	a.push(abi.Tensor, t.handle(a.op.name))
}

// room reserves n words for a list and pushes its argument.
func (a *args) room(tag uint8, n, words int) []uint64 {
	if used := int(a.f.Used); used+words <= abi.Inline {
		a.f.Used += uint32(words)
		a.push(tag, uint64(used)|uint64(n)<<32)
		return a.f.Data[used : used+words]
	}
	off := len(a.far)
	a.far = append(a.far, make([]uint64, words)...)
	a.push(tag|abi.Far, uint64(off)|uint64(n)<<32)
	return a.far[off:]
}

func (a *args) ints(v []int) {
	for i, w := 0, a.room(abi.Ints, len(v), len(v)); i < len(v); i++ {
		w[i] = uint64(v[i])
	}
}

func (a *args) floats(v []float64) {
	for i, w := 0, a.room(abi.Doubles, len(v), len(v)); i < len(v); i++ {
		w[i] = math.Float64bits(v[i])
	}
}

func (a *args) bools(v []bool) {
	for i, w := 0, a.room(abi.Bools, len(v), len(v)); i < len(v); i++ {
		if v[i] {
			w[i] = 1
		}
	}
}

func (a *args) str(s string) {
	w := a.room(abi.Str, len(s), (len(s)+7)/8)
	for i := 0; i < len(s); i++ {
		w[i/8] |= uint64(s[i]) << (8 * (i % 8))
	}
}

// tensors pushes a list; a nil element is None where the schema has Tensor?[].
func (a *args) tensors(ts []*Tensor) {
	for i, w := 0, a.room(abi.Tensors, len(ts), len(ts)); i < len(ts); i++ {
		if ts[i] != nil {
			w[i] = ts[i].handle(a.op.name)
		}
	}
}

// scalar pushes a number as Python would: an int stays an int, so that it does not change an integer tensor's type.
func (a *args) scalar(v any) {
	switch x := v.(type) {
	case nil:
		a.none()
	case int:
		a.int(x)
	case float64:
		a.float(x)
	case float32:
		a.float(float64(x))
	case int64:
		a.int(int(x))
	case int32:
		a.int(int(x))
	case bool:
		a.bool(x)
	default:
		panic(&Error{Kind: KindType, Op: a.op.name, Msg: fmt.Sprintf("a scalar is an int, a float or a bool, not %T", v)})
	}
}

// run makes the call, which leaves its results in the frame, and panics with *Error when it failed. The caller keeps its
// tensors alive until it returns.
func (a *args) run() {
	if queued.Load() > 0 {
		drain()
	}
	if e := abi.Call(a.op.get(), &a.f, a.far); e.Kind != abi.OK {
		a.fail(&e)
	}
}

func (a *args) fail(f *abi.Failure) {
	e := &Error{Kind: Kind(f.Kind), Op: a.op.name, Msg: words(f.Message())}
	for i := range int(a.f.N) {
		switch a.f.Tag[i] &^ abi.Far {
		case abi.Tensor:
			e.addShape(a.f.W[i])
		case abi.Tensors:
			list := a.f.Data[:]
			if a.f.Tag[i]&abi.Far != 0 {
				list = a.far
			}
			off, n := int(uint32(a.f.W[i])), int(a.f.W[i]>>32)
			for _, h := range list[off : off+n] {
				e.addShape(h)
			}
		}
	}
	panic(e)
}

// maxShapes bounds what an error about a long list of tensors shows.
const maxShapes = 8

func (e *Error) addShape(h uint64) {
	if h == 0 || len(e.Shapes) == maxShapes {
		return
	}
	var d abi.Desc
	if r := abi.Describe(h, &d); r.Kind != abi.OK {
		r.Message()
		return
	}
	s := make([]int, d.NDim)
	for k := range s {
		s[k] = int(d.Sizes[k])
	}
	e.Shapes = append(e.Shapes, s)
}

// owner hands out the new handles of one call: those of a scope lie there one after the other.
type owner struct{ scope, slot uint32 }

func (o *owner) own(h uint64) *Tensor {
	if h == 0 {
		return nil
	}
	t := own(h, o.scope, o.slot)
	if o.scope != 0 {
		o.slot++
	}
	return t
}

// list takes a GS_TENSORS result; absent elements are nil.
func (o *owner) list(w uint64) []*Tensor {
	hs := abi.Handles(w)
	ts := make([]*Tensor, len(hs))
	for i, h := range hs {
		ts[i] = o.own(h)
	}
	return ts
}

// results makes the call, which must give n results.
func (a *args) results(n uint32) {
	a.run()
	if a.f.N != n {
		panic(&Error{Kind: KindInternal, Op: a.op.name, Msg: fmt.Sprintf("gave %d results, not %d", a.f.N, n)})
	}
}

func (a *args) owner() owner { return owner{a.f.Scope, a.f.Slot} }

func (a *args) void() {
	a.run()
	pressure(a.f.Bytes)
}

func (a *args) one() *Tensor {
	a.results(1)
	t := own(a.f.W[0], a.f.Scope, a.f.Slot)
	pressure(a.f.Bytes)
	return t
}

func (a *args) two() (*Tensor, *Tensor) {
	a.results(2)
	o := a.owner()
	t, u := o.own(a.f.W[0]), o.own(a.f.W[1])
	pressure(a.f.Bytes)
	return t, u
}

func (a *args) three() (*Tensor, *Tensor, *Tensor) {
	a.results(3)
	o := a.owner()
	t, u, v := o.own(a.f.W[0]), o.own(a.f.W[1]), o.own(a.f.W[2])
	pressure(a.f.Bytes)
	return t, u, v
}

func (a *args) list() []*Tensor {
	a.results(1)
	o := a.owner()
	ts := o.list(a.f.W[0])
	pressure(a.f.Bytes)
	return ts
}

// ownList takes the GS_TENSORS result of a call that is no operator.
func ownList(r *abi.Result) []*Tensor {
	o := owner{r.Scope, r.Slot}
	ts := o.list(r.W[0])
	pressure(r.Bytes)
	return ts
}

// ownOne takes the only tensor of a call that is no operator.
func ownOne(r *abi.Result) *Tensor {
	t := own(r.W[0], r.Scope, r.Slot)
	pressure(r.Bytes)
	return t
}

func (a *args) boolResult() bool {
	a.results(1)
	return a.f.W[0] != 0
}

func (a *args) floatResult() float64 {
	a.results(1)
	switch a.f.Tag[0] {
	case abi.Int, abi.Bool:
		return float64(int64(a.f.W[0]))
	}
	return math.Float64frombits(a.f.W[0])
}

type defaultValue struct{}

// Default is the argument of Call that stands for the schema's default.
var Default defaultValue

// Call runs any operator of the dispatcher by name, for instance Call("aten::add.Tensor", x, y). Arguments in schema
// order: *Tensor (nil = None), int, float64, bool, string, []int, []float64, []bool, []*Tensor, DType, Device,
// MemoryFormat, *Generator, nil, Default; missing trailing ones take the schema's defaults. The results are *Tensor, []*Tensor, int,
// float64, bool, string or nil; results that alias a written argument are left out. It panics with *Error.
func Call(name string, arguments ...any) []any {
	op := opByName(name)
	a := args{op: op}
	for i, v := range arguments {
		switch x := v.(type) {
		case nil:
			a.none()
		case defaultValue:
			a.def()
		case *Tensor:
			a.tensor(x)
		case []*Tensor:
			a.tensors(x)
		case []int:
			a.ints(x)
		case []float64:
			a.floats(x)
		case []bool:
			a.bools(x)
		case string:
			a.str(x)
		case DType:
			a.dtype(x)
		case Device:
			a.device(x)
		case MemoryFormat:
			a.mem(x)
		case *Generator:
			a.gen(x)
		case int, int64, int32, float64, float32, bool:
			a.scalar(x)
		default:
			panic(&Error{Kind: KindType, Op: name, Msg: fmt.Sprintf("argument %d: a %T cannot be passed to an operator", i+1, v)})
		}
	}
	a.run()
	runtime.KeepAlive(arguments)
	o := a.owner()
	out := make([]any, a.f.N)
	for i := range out {
		switch w := a.f.W[i]; a.f.Tag[i] {
		case abi.Tensor:
			if t := o.own(w); t != nil {
				out[i] = t
			}
		case abi.Tensors:
			out[i] = o.list(w)
		case abi.Int:
			out[i] = int(w)
		case abi.Double:
			out[i] = math.Float64frombits(w)
		case abi.Bool:
			out[i] = w != 0
		case abi.Str:
			out[i] = abi.Text(w)
		}
	}
	pressure(a.f.Bytes)
	return out
}
