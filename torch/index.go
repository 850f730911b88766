package torch

import (
	"fmt"
	"math"
	"slices"
)

// Range selects positions of one dimension, made with R. All is a whole dimension.
type Range struct{ start, end, step int }

// End, as the end of a Range, is the end of the dimension.
const End = math.MaxInt

// All is the whole dimension, Python's ":".
var All = Range{0, End, 1}

// R is the range start:end, or start:end:step, with Python's meaning: the end is not included, negative positions count
// from the end of the dimension, and what lies outside it is cut off. The step is positive; Flip turns a dimension round.
func R(start, end int, step ...int) Range {
	r := Range{start, end, 1}
	if len(step) > 0 {
		r.step = step[0]
	}
	return r
}

type (
	newAxis  struct{}
	ellipsis struct{}
)

// NewAxis is an index that adds a dimension of length 1, Python's None.
var NewAxis newAxis

// Ellipsis is an index that stands for as many All as are missing, Python's "...".
var Ellipsis ellipsis

// At indexes the tensor as x[i, j, …] does in Python. An index is
//
//   - an int, which takes one position and drops the dimension; negative counts from the end,
//   - a Range: R(start, end), R(start, end, step), All,
//   - NewAxis or Ellipsis,
//   - an int64 or int32 tensor, or []int, of positions; several are broadcast together and walked in parallel,
//   - a bool tensor, or []bool, that covers as many dimensions as it has,
//   - a bool, which adds a dimension of length 1 or 0.
//
// Without tensors and slices among the indices the result is a view of t, else a copy. Autograd sees the indexing. It panics with *Error.
func (t *Tensor) At(indices ...any) *Tensor {
	x := index("at", t, indices)
	defer x.free()
	if x.positions == nil {
		return x.take()
	}
	return x.view().Index(x.positions)
}

// SetAt writes value, a tensor or a number, to the positions that At(indices...) reads, as x[i, j, …] = value does in
// Python; a tensor is broadcast. Positions that occur twice get one of the values. It panics with *Error.
func (t *Tensor) SetAt(value any, indices ...any) {
	x := index("set_at", t, indices)
	defer x.free()
	v, ok := value.(*Tensor)
	if !ok {
		if x.positions == nil {
			x.view().Fill_(value)
			return
		}
		v = x.made(full(nil, value, t.DType(), t.Device()))
	}
	v = x.withoutLeadingOnes(v)
	if x.positions == nil {
		x.view().Copy_(v)
		return
	}
	x.view().IndexPut_(x.positions, v, false)
}

// indexing is what a list of indices comes to: a view of the tensor, and positions to gather from its dimensions.
type indexing struct {
	op        string
	views     []*Tensor // from the tensor itself to the last
	others    []*Tensor
	positions []*Tensor // per dimension of the last view, nil = all; nil when no index has positions
}

func (x *indexing) view() *Tensor { return x.views[len(x.views)-1] }

// next replaces the view.
func (x *indexing) next(v *Tensor) { x.views = append(x.views, v) }

// made remembers a temporary.
func (x *indexing) made(t *Tensor) *Tensor {
	x.others = append(x.others, t)
	return t
}

// take hands the last view to the caller; a new one where it is the tensor itself.
func (x *indexing) take() *Tensor {
	if len(x.views) == 1 {
		return Call("aten::alias", x.view())[0].(*Tensor)
	}
	v := x.view()
	x.views = x.views[:len(x.views)-1]
	return v
}

func (x *indexing) free() {
	for _, v := range x.views[1:] {
		v.Free()
	}
	for _, v := range x.others {
		v.Free()
	}
}

func (x *indexing) fail(kind Kind, format string, args ...any) {
	panic(&Error{Kind: kind, Op: x.op, Shapes: [][]int{x.views[0].Shape()}, Msg: fmt.Sprintf(format, args...)})
}

// covers is how many dimensions of the tensor an index speaks of.
func covers(index any) int {
	switch i := index.(type) {
	case newAxis, ellipsis, bool, nil:
		return 0
	case *Tensor:
		if i.DType() == Bool {
			return i.Dim()
		}
	}
	return 1
}

func index(op string, t *Tensor, indices []any) *indexing {
	x := &indexing{op: op, views: []*Tensor{t}}
	done := false
	defer func() {
		if !done { // an index that cannot be used
			x.free()
		}
	}()
	dims, covered := t.Dim(), 0
	for _, i := range indices {
		covered += covers(i)
	}
	if covered > dims {
		x.fail(KindIndex, "%d indices are too many for %d dimensions", covered, dims)
	}
	dim, rest := 0, dims-covered // of the view; what an Ellipsis stands for
	for n, i := range indices {
		switch i := i.(type) {
		case int:
			x.next(x.view().Select(dim, i))
		case Range:
			dim = x.slice(dim, i)
		case newAxis:
			x.next(x.view().Unsqueeze(dim))
			dim++
		case ellipsis:
			dim += rest
			rest = 0
		case bool:
			dim = x.flag(dim, i)
		case []int:
			dim = x.gather(dim, x.made(FromSlice(int64s(i))))
		case []bool:
			dim = x.mask(dim, x.made(FromSlice(i)))
		case *Tensor:
			switch d := i.DType(); {
			case d == Bool && i.Dim() == 0:
				dim = x.flag(dim, i.ItemInt() != 0)
			case d == Bool:
				dim = x.mask(dim, i)
			case d != Int64 && d != Int32:
				x.fail(KindIndex, "index %d is a tensor of %v; positions are int64 or int32, masks bool", n+1, d)
			case i.Dim() == 0:
				x.next(x.view().Select(dim, i.ItemInt()))
			default:
				dim = x.gather(dim, i)
			}
		default:
			x.fail(KindType, "index %d is a %T; want an int, a Range, NewAxis, Ellipsis, a bool, []int, []bool or *Tensor", n+1, i)
		}
	}
	done = true
	return x
}

func int64s(v []int) []int64 {
	w := make([]int64, len(v))
	for i := range v {
		w[i] = int64(v[i])
	}
	return w
}

func (x *indexing) slice(dim int, r Range) int {
	if r.step < 1 {
		x.fail(KindValue, "a range with step %d; steps are positive, use Flip to turn a dimension round", r.step)
	}
	if r != All {
		x.next(x.view().Slice(dim, r.start, r.end, r.step))
	}
	return dim + 1
}

// gather notes the positions for a dimension.
func (x *indexing) gather(dim int, positions *Tensor) int {
	for len(x.positions) < dim {
		x.positions = append(x.positions, nil)
	}
	x.positions = append(x.positions, positions)
	return dim + 1
}

// flag adds a dimension of length 1 or 0.
func (x *indexing) flag(dim int, on bool) int {
	x.next(x.view().Unsqueeze(dim))
	n := 0
	if on {
		n = 1
	}
	return x.gather(dim, x.made(Zeros(S(n), Int64)))
}

// mask turns a mask into the positions of its true elements, one tensor for each of its dimensions.
func (x *indexing) mask(dim int, mask *Tensor) int {
	got := mask.Shape()
	if want := x.view().Shape()[dim:][:len(got)]; !slices.Equal(got, want) {
		x.fail(KindIndex, "a mask of shape %v does not fit the dimensions %v", got, want)
	}
	where := x.made(mask.Nonzero())
	for k := range got {
		dim = x.gather(dim, x.made(where.Select(1, k)))
	}
	return dim
}

// withoutLeadingOnes drops leading dimensions of length 1 from a value, which then broadcasts to places of fewer dimensions.
func (x *indexing) withoutLeadingOnes(v *Tensor) *Tensor {
	shape := v.Shape()
	n := 0
	for n < len(shape) && shape[n] == 1 {
		n++
	}
	if n == 0 {
		return v
	}
	return x.made(v.View(shape[n:]...))
}
