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
	a.push(abi.Generator, g.h)
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

// run makes the call and panics with *Error when it failed. The caller keeps its tensors alive until it returns.
func (a *args) run() abi.Result {
	if queued.Load() > 0 {
		drain()
	}
	r := abi.Call(a.op.get(), &a.f, a.far)
	if r.Kind != abi.OK {
		a.fail(&r)
	}
	return r
}

func (a *args) fail(r *abi.Result) {
	e := &Error{Kind: Kind(r.Kind), Op: a.op.name, Msg: r.Message()}
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

func (a *args) void() {
	r := a.run()
	pressure(r.Bytes)
}

func (a *args) one() *Tensor {
	r := a.run()
	t := own(r.W[0], r.Scope)
	pressure(r.Bytes)
	return t
}

func (a *args) two() (*Tensor, *Tensor) {
	r := a.run()
	t, u := own(r.W[0], r.Scope), own(r.W[1], r.Scope)
	pressure(r.Bytes)
	return t, u
}

func (a *args) three() (*Tensor, *Tensor, *Tensor) {
	r := a.run()
	t, u, v := own(r.W[0], r.Scope), own(r.W[1], r.Scope), own(r.W[2], r.Scope)
	pressure(r.Bytes)
	return t, u, v
}

func (a *args) list() []*Tensor {
	r := a.run()
	ts := ownList(&r)
	pressure(r.Bytes)
	return ts
}

// ownList takes a GS_TENSORS result; absent elements are nil.
func ownList(r *abi.Result) []*Tensor {
	hs := abi.Handles(r.W[0])
	ts := make([]*Tensor, len(hs))
	for i, h := range hs {
		ts[i] = own(h, r.Scope)
	}
	return ts
}

func (a *args) intResult() int {
	r := a.run()
	return int(r.W[0])
}

func (a *args) boolResult() bool {
	r := a.run()
	return r.W[0] != 0
}

func (a *args) floatResult() float64 {
	r := a.run()
	switch r.Tag[0] {
	case abi.Int, abi.Bool:
		return float64(int64(r.W[0]))
	}
	return math.Float64frombits(r.W[0])
}

// Call runs any operator of the dispatcher by name, for instance Call("aten::add.Tensor", x, y). Arguments in schema
// order: *Tensor (nil = None), int, float64, bool, string, []int, []float64, []bool, []*Tensor, DType, Device,
// MemoryFormat, *Generator, nil; missing trailing ones take the schema's defaults. The results are *Tensor, []*Tensor, int,
// float64, bool, string or nil; results that alias a written argument are left out. It panics with *Error.
func Call(name string, arguments ...any) []any {
	op := opByName(name)
	a := args{op: op}
	for i, v := range arguments {
		switch x := v.(type) {
		case nil:
			a.none()
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
	r := a.run()
	runtime.KeepAlive(arguments)
	out := make([]any, r.N)
	for i := range out {
		switch r.Tag[i] {
		case abi.Tensor:
			if t := own(r.W[i], r.Scope); t != nil {
				out[i] = t
			}
		case abi.Tensors:
			one := abi.Result{Scope: r.Scope}
			one.W[0] = r.W[i]
			out[i] = ownList(&one)
		case abi.Int:
			out[i] = int(r.W[i])
		case abi.Double:
			out[i] = math.Float64frombits(r.W[i])
		case abi.Bool:
			out[i] = r.W[i] != 0
		case abi.Str:
			out[i] = abi.Text(r.W[i])
		}
	}
	pressure(r.Bytes)
	return out
}
