package torch_test

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
	"github.com/stretchr/testify/require"
)

func iota64(shape ...int) *torch.Tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return torch.Arange(0, n, 1, torch.Float64).Reshape(shape...)
}

// tensorOf is the only result of a call.
func tensorOf(t *testing.T, results []any) *torch.Tensor {
	t.Helper()
	require.Len(t, results, 1)
	x, ok := results[0].(*torch.Tensor)
	require.True(t, ok, "a %T, want a tensor", results[0])
	return x
}

func values(x *torch.Tensor) []float64 { return torch.ToSlice[float64](x) }

func TestCallDefaults(t *testing.T) {
	torchtest.NoLeaks(t)
	x, y := iota64(2, 3), torch.Ones(torch.S(3), torch.Float64)
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, values(tensorOf(t, torch.Call("aten::add.Tensor", x, y))))
	require.Equal(t, []float64{-2, -1, 0, 1, 2, 3}, values(tensorOf(t, torch.Call("aten::add.Tensor", x, y, -2))))
	require.Equal(t, []float64{15}, values(tensorOf(t, torch.Call("aten::sum", x))))
	require.Equal(t, torch.Float32, tensorOf(t, torch.Call("aten::sum", x, torch.Float32)).DType())
	// One int stands for a list, an int for a float.
	require.Equal(t, []float64{3, 12}, values(tensorOf(t, torch.Call("aten::sum.dim_IntList", x, 1))))
	require.Equal(t, values(x), values(tensorOf(t, torch.Call("aten::dropout", x, 0, true))))
	// Every Go type of a scalar.
	for _, one := range []any{1, int64(1), int32(1), 1.0, float32(1), true} {
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, values(tensorOf(t, torch.Call("aten::add.Scalar", x, one))), "%T", one)
	}
	require.Equal(t, torch.Int64, tensorOf(t, torch.Call("aten::add.Scalar", torch.Scalar(int64(1)), int32(2))).DType(), "an int keeps integers integers")
	require.True(t, tensorOf(t, torch.Call("aten::contiguous", torch.Ones(torch.S(1, 2, 3, 3)), torch.ChannelsLast)).IsChannelsLast())
	require.Equal(t, torch.DeviceMeta, tensorOf(t, torch.Call("aten::empty.memory_format", []int{2}, torch.Float32, nil, torch.Meta)).Device().Type)
}

func TestCallResults(t *testing.T) {
	torchtest.NoLeaks(t)
	x := iota64(5, 2)
	for _, c := range []struct {
		name string
		args []any
		want [][]int
	}{
		{"aten::split.Tensor", []any{x, 2}, [][]int{{2, 2}, {2, 2}, {1, 2}}},
		{"aten::chunk", []any{x, 2}, [][]int{{3, 2}, {2, 2}}},
		{"aten::unbind.int", []any{x, 1}, [][]int{{5}, {5}}},
		{"aten::unbind.int", []any{torch.Ones(torch.S(0, 3))}, [][]int{}},
		{"aten::meshgrid", []any{[]*torch.Tensor{iota64(2), iota64(3)}}, [][]int{{2, 3}, {2, 3}}},
	} {
		results := torch.Call(c.name, c.args...)
		require.Len(t, results, 1, c.name)
		shapes := [][]int{}
		for _, y := range results[0].([]*torch.Tensor) {
			shapes = append(shapes, y.Shape())
		}
		require.Equal(t, c.want, shapes, c.name)
	}
	require.Equal(t, []float64{1, 3, 5, 7, 9}, values(torch.Call("aten::unbind.int", x, 1)[0].([]*torch.Tensor)[1]))

	// Two results of different kinds; absent ones are nil.
	both := torch.Call("aten::histogramdd", x, []int{2, 2})
	require.Len(t, both, 2)
	require.Equal(t, []int{2, 2}, both[0].(*torch.Tensor).Shape())
	require.Len(t, both[1], 2)
	one := torch.Ones(torch.S(1, 1, 2, 2))
	grads := torch.Call("aten::convolution_backward", one, one, torch.Ones(torch.S(1, 1, 1, 1)), nil, []int{1, 1}, []int{0, 0}, []int{1, 1}, false, []int{0, 0}, 1, []bool{true, false, true})
	require.Len(t, grads, 3)
	require.Equal(t, []int{1, 1, 2, 2}, grads[0].(*torch.Tensor).Shape())
	require.Nil(t, grads[1])
	require.Equal(t, []float64{4}, values(grads[2].(*torch.Tensor)))

	for name, want := range map[string]any{"aten::is_floating_point": true, "aten::is_complex": false} {
		require.Equal(t, []any{want}, torch.Call(name, x), name)
	}
	require.Equal(t, []any{2}, torch.Call("aten::sym_size.int", x, 1))
	require.Equal(t, []any{2.5}, torch.Call("aten::item", torch.Scalar(2.5)))
	require.Equal(t, []any{7}, torch.Call("aten::item", torch.Scalar(int64(7))))
	require.Equal(t, []any{true}, torch.Call("aten::item", torch.Scalar(true)))
}

func TestCallOptionalLists(t *testing.T) {
	torchtest.NoLeaks(t)
	x := iota64(2, 3)
	columns := torch.FromSlice([]int64{2, 0})
	want := []float64{2, 0, 5, 3}
	require.Equal(t, want, values(tensorOf(t, torch.Call("aten::index.Tensor", x, []*torch.Tensor{nil, columns}))))
	require.Equal(t, want, values(x.Index([]*torch.Tensor{nil, columns})))
	require.Equal(t, []float64{0, 1, 9, 3, 4, 9}, values(x.IndexPut([]*torch.Tensor{nil, columns.Select(0, 0)}, torch.Scalar(9.0), false)))
	// An optional tensor.
	w := iota64(4, 3)
	require.Equal(t, []int{2, 4}, tensorOf(t, torch.Call("aten::linear", x, w, nil)).Shape())
	require.Equal(t, values(torch.Linear(x, w, nil)), values(tensorOf(t, torch.Call("aten::linear", x, w))))
}

// TestCallLongArguments passes lists that do not fit into the frame, alone and after ones that do.
func TestCallLongArguments(t *testing.T) {
	torchtest.NoLeaks(t)
	xs, ys := make([]*torch.Tensor, 100), make([]*torch.Tensor, 100)
	var want []float64
	for i := range xs {
		xs[i], ys[i] = torch.Scalar(float64(i)).Unsqueeze(0), torch.Scalar(float64(i)*0.5).Unsqueeze(0)
		want = append(want, float64(i)*2)
	}
	sums := torch.Call("aten::_foreach_add.List", xs, ys, 2)[0].([]*torch.Tensor)
	require.Equal(t, want, values(torch.Cat(sums, 0)))
	few := torch.Call("aten::_foreach_add.List", xs[:30], ys[:30], 2)[0].([]*torch.Tensor)
	require.Equal(t, want[:30], values(torch.Cat(few, 0)))
	sizes := make([]int, 64)
	for i := range sizes {
		sizes[i] = i % 3
	}
	parts := torch.Ones(torch.S(63)).SplitWithSizes(sizes, 0)
	require.Len(t, parts, 64)
	require.Equal(t, []int{2}, parts[62].Shape())
	// A text of 400 bytes, and one whose length is no multiple of eight.
	long := strings.Repeat(" ", 390) + "i,i->i"
	require.Equal(t, []float64{0, 1, 4}, values(torch.Einsum(long, []*torch.Tensor{iota64(3), iota64(3)})))
	require.Equal(t, []float64{5}, values(torch.Einsum("i,i->", []*torch.Tensor{iota64(3), iota64(3)})))
	// A failing call with a long list names a few shapes.
	var e *torch.Error
	require.ErrorAs(t, torch.Try(func() { torch.Cat(append(xs[:60:60], iota64(2, 2)), 0) }), &e)
	require.Equal(t, [][]int{{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}}, e.Shapes)
}

// TestCallDropsWritten counts handles with the collector off: what an operator writes is not handed out again.
func TestCallDropsWritten(t *testing.T) {
	torchtest.NoLeaks(t)
	x, y := iota64(2, 3), torch.Ones(torch.S(3), torch.Float64)
	out, values, indices := torch.Zeros(torch.S(2, 3), torch.Float64), torch.Empty(torch.S(2, 3), torch.Float64), torch.Empty(torch.S(2, 3), torch.Int64)
	bad := torch.Ones(torch.S(4), torch.Float64)
	lists := []*torch.Tensor{out, values}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	steps := map[string]func(){
		"in place":      func() { require.Empty(t, torch.Call("aten::add_.Tensor", x, y)) },
		"method":        func() { require.True(t, x.Sub_(y) == x) },
		"lists":         func() { torch.ForeachAddScalar_(lists, 0) },
		"out=":          func() { require.Empty(t, torch.Call("aten::add.out", x, y, 1, out)) },
		"two out=":      func() { require.Empty(t, torch.Call("aten::sort.values", x, 1, false, values, indices)) },
		"a result":      func() { x.Add(y).Free() },
		"an error":      func() { require.Error(t, torch.Try(func() { torch.Call("aten::add.Tensor", x, bad) })) },
		"a bad call":    func() { require.Error(t, torch.Try(func() { torch.Call("aten::add.Tensor", x, "y") })) },
		"a scope":       func() { torch.Scope(func(*torch.Arena) { torch.Call("aten::split.Tensor", x, 1) }) },
		"several":       func() { a, b := x.MaxDim(1, false); a.Free(); b.Free() },
		"no tensors":    func() { torch.Call("aten::equal", x, x) },
		"a foreign one": func() { require.Error(t, torch.Try(func() { x.Add(&torch.Tensor{}) })) },
	}
	for name, f := range steps {
		f()
		before := torch.Live()
		for range 100 {
			f()
		}
		require.Equal(t, before, torch.Live(), name)
	}
}

// refusal is what an error must say.
type refusal struct {
	name   string
	f      func()
	kind   torch.Kind
	is     error
	op     string
	shapes [][]int
	words  string
}

func (r refusal) check(t *testing.T) {
	err := torch.Try(r.f)
	var e *torch.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, r.kind, e.Kind, "%v", err)
	require.Equal(t, r.op, e.Op)
	require.Equal(t, r.shapes, e.Shapes)
	require.ErrorContains(t, err, r.words)
	for _, sentinel := range []error{torch.ErrIndex, torch.ErrValue, torch.ErrType, torch.ErrOutOfMemory, torch.ErrNoKernel, torch.ErrLinalg, torch.ErrHandle, torch.ErrLibrary} {
		require.Equal(t, sentinel == r.is, errors.Is(err, sentinel), "errors.Is(err, %q)", sentinel)
	}
}

func TestCallRefusesArguments(t *testing.T) {
	torchtest.NoLeaks(t)
	x := iota64(2, 3)
	shapes := [][]int{{2, 3}}
	for _, c := range []struct {
		op    string
		args  []any
		words string
	}{
		{"aten::mm", []any{x}, "mm: [2 3]: argument 2 (Tensor mat2) is missing"},
		{"aten::mm", []any{x, 3}, "argument 2 (Tensor mat2) cannot be of type int"},
		{"aten::mm", []any{x, []*torch.Tensor{}}, "argument 2 (Tensor mat2) cannot be of type Tensor[]"},
		{"aten::sum.dim_IntList", []any{x, "a"}, "argument 2 (int[]? dim) cannot be of type str"},
		{"aten::sum.dim_IntList", []any{x, []float64{1}}, "argument 2 (int[]? dim) cannot be of type float[]"},
		{"aten::sum.dim_IntList", []any{x, 1, 1}, "argument 3 (bool keepdim) cannot be of type int"},
		{"aten::select.int", []any{x, 0, 1.5}, "argument 3 (int index) cannot be of type float"},
		{"aten::select.int", []any{x, true, 1}, "argument 2 (int dim) cannot be of type bool"},
		{"aten::view", []any{x, []bool{true}}, "argument 2 (int[] size) cannot be of type bool[]"},
		{"aten::add.Scalar", []any{x, "1"}, "argument 2 (Scalar other) cannot be of type str"},
		{"aten::add.Scalar", []any{x, nil}, "argument 2 (Scalar other) cannot be of type None"},
		{"aten::add.Scalar", []any{x, torch.CPU}, "argument 2 (Scalar other) cannot be of type Device"},
		{"aten::to.dtype", []any{x, "float32"}, "argument 2 (ScalarType dtype) cannot be of type str"},
		{"aten::to.device", []any{x, 0, torch.Float32}, "argument 2 (Device device) cannot be of type int"},
		{"aten::uniform_", []any{x, 0.0, 1.0, 42}, "argument 4 (Generator? generator) cannot be of type int"},
		{"aten::pad", []any{x, []int{1, 1}, 5}, "argument 3 (str mode) cannot be of type int"},
		{"aten::index.Tensor", []any{x, []int{}}, "argument 2 (Tensor?[] indices) cannot be of type int[]"},
		{"aten::dropout", []any{x, "p", true}, "argument 2 (float p) cannot be of type str"},
	} {
		t.Run(c.op, refusal{"", func() { torch.Call(c.op, c.args...) }, torch.KindCall, torch.ErrType, strings.SplitN(c.op, ".", 2)[0], shapes, c.words}.check)
	}
	for _, r := range []refusal{
		{"too many", func() { torch.Call("aten::mm", x, x, x) }, torch.KindCall, torch.ErrType, "aten::mm", [][]int{{2, 3}, {2, 3}, {2, 3}}, "takes 2 arguments, got 3"},
		{"far too many", func() { torch.Call("aten::mm", make([]any, 21)...) }, torch.KindCall, torch.ErrType, "aten::mm", nil, "more than 20 arguments"},
		{"a list of a list", func() { torch.Call("aten::cat", []int{}) }, torch.KindCall, torch.ErrType, "aten::cat", nil, "argument 1 (Tensor[] tensors) cannot be of type int[]"},
		{"a Go type", func() { torch.Call("aten::add.Scalar", x, struct{}{}) }, torch.KindType, torch.ErrType, "aten::add.Scalar", nil, "argument 2: a struct {} cannot be passed to an operator"},
		{"a scalar of a method", func() { x.AddScalar("1") }, torch.KindType, torch.ErrType, "aten::add", nil, "a scalar is an int, a float or a bool, not string"},
		{"unknown operator", func() { torch.Call("aten::nothing", x) }, torch.KindCall, torch.ErrType, "aten::nothing", nil, "no operator aten::nothing"},
		{"unknown overload", func() { torch.Call("aten::add.Nothing", x) }, torch.KindCall, torch.ErrType, "aten::add", nil, "no operator aten::add.Nothing"},
		{"no namespace", func() { torch.Call("add.Tensor", x) }, torch.KindCall, torch.ErrType, "add", nil, "no operator add.Tensor"},
		{"schema of none", func() { torch.Schema("aten::nothing") }, torch.KindCall, torch.ErrType, "aten::nothing", nil, "no operator aten::nothing"},
		{"complex result", func() { torch.Call("aten::item", torch.Zeros(torch.S(), torch.Complex64)) }, torch.KindCall, torch.ErrType, "aten::item", [][]int{{}}, "cannot cross to Go"},
	} {
		t.Run(r.name, r.check)
	}
}

func TestErrorKinds(t *testing.T) {
	torchtest.NoLeaks(t)
	x := iota64(2, 3)
	freed, late := torch.Ones(torch.S(2)), (*torch.Tensor)(nil)
	freed.Free()
	torch.Scope(func(*torch.Arena) { late = torch.Ones(torch.S(2)) })
	var none *torch.Tensor
	leaf := torch.Ones(torch.S(2), torch.RequiresGrad)
	for _, r := range []refusal{
		{"shapes of a method", func() { x.Mm(x) }, torch.KindRuntime, nil, "aten::mm", [][]int{{2, 3}, {2, 3}}, "mm: [2 3] x [2 3]: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"},
		{"shapes in a list", func() { torch.Cat([]*torch.Tensor{x, iota64(2, 2)}, 0) }, torch.KindRuntime, nil, "aten::cat", [][]int{{2, 3}, {2, 2}}, "Sizes of tensors must match"},
		{"dtypes", func() { x.Mm(torch.Ones(torch.S(3, 2), torch.Int64)) }, torch.KindRuntime, nil, "aten::mm", [][]int{{2, 3}, {3, 2}}, "expected m1 and m2 to have the same dtype"},
		{"in place on a leaf", func() { leaf.Add_(leaf) }, torch.KindRuntime, nil, "aten::add_", [][]int{{2}, {2}}, "a leaf Variable that requires grad is being used in an in-place operation"},
		{"index", func() { x.Select(0, 9) }, torch.KindIndex, torch.ErrIndex, "aten::select", [][]int{{2, 3}}, "index 9 out of range"},
		{"dimension", func() { x.SumDim([]int{5}, false) }, torch.KindIndex, torch.ErrIndex, "aten::sum", [][]int{{2, 3}}, "Dimension out of range"},
		{"size", func() { x.Size(2) }, torch.KindIndex, torch.ErrIndex, "size", [][]int{{2, 3}}, "dimension out of range: 2"},
		{"value", func() { x.CrossEntropyLoss(torch.Zeros(torch.S(3), torch.Int64), nil, torch.ReductionMean) },
			torch.KindValue, torch.ErrValue, "aten::cross_entropy_loss", [][]int{{2, 3}, {3}}, "to match target batch_size"},
		{"data", func() { torch.FromSlice([]float32{1, 2}, 3) }, torch.KindValue, torch.ErrValue, "from_slice", [][]int{{3}}, "the data has 2 elements of float32, the shape wants 3"},
		{"view of a type", func() { torch.View(x, func([]float32) {}) }, torch.KindType, torch.ErrType, "view", nil, "the tensor holds float64, not float32"},
		{"kernel", func() { torch.Zeros(torch.S(2), torch.Int64).Uniform_(0, 1, nil) }, torch.KindNotImplemented, torch.ErrNoKernel, "aten::uniform_", [][]int{{2}}, "'Long'"},
		{"device", func() { torch.Zeros(torch.S(2), torch.CUDA(0)) }, torch.KindNotImplemented, torch.ErrNoKernel, "aten::zeros", nil, "from the 'CUDA' backend: the loaded libtorch has no such kernel"},
		{"singular", func() { torch.LinalgInv(torch.Zeros(torch.S(2, 2))) }, torch.KindLinalg, torch.ErrLinalg, "aten::linalg_inv", [][]int{{2, 2}}, "singular"},
		{"memory", func() { torch.Empty(torch.S(1 << 50)) }, torch.KindOutOfMemory, torch.ErrOutOfMemory, "aten::empty", nil, "can't allocate memory"},
		{"freed", func() { x.Add(freed) }, torch.KindHandle, torch.ErrHandle, "aten::add", nil, "the tensor was freed"},
		{"freed receiver", func() { freed.Shape() }, torch.KindHandle, torch.ErrHandle, "shape", nil, "the tensor was freed"},
		{"freed in a list", func() { torch.Cat([]*torch.Tensor{x, freed}, 0) }, torch.KindHandle, torch.ErrHandle, "aten::cat", nil, "the tensor was freed"},
		{"scope ended", func() { x.Add(late) }, torch.KindHandle, torch.ErrHandle, "aten::add", nil, "used after its scope ended"},
		{"foreign", func() { x.Add(&torch.Tensor{}) }, torch.KindHandle, torch.ErrHandle, "aten::add", nil, "not made by this package"},
		{"nil", func() { x.Add(nil) }, torch.KindHandle, torch.ErrHandle, "aten::add", [][]int{{2, 3}}, "argument 2 (Tensor other) is a nil tensor"},
		{"nil receiver", func() { none.Add(x) }, torch.KindHandle, torch.ErrHandle, "aten::add", [][]int{{2, 3}}, "argument 1 (Tensor self) is a nil tensor"},
		{"nil in a list", func() { torch.Cat([]*torch.Tensor{x, nil}, 0) }, torch.KindHandle, torch.ErrHandle, "aten::cat", [][]int{{2, 3}}, "argument 1 (Tensor[] tensors): element 1 is a nil tensor"},
		{"nil root", func() { torch.Backward([]*torch.Tensor{nil}) }, torch.KindHandle, torch.ErrHandle, "backward", nil, "the tensor is nil"},
		{"foreign generator", func() { leaf.RandLike().Uniform_(0, 1, &torch.Generator{}) }, torch.KindHandle, torch.ErrHandle, "aten::uniform_", nil, "not made by NewGenerator"},
		{"no graph", func() { x.Sum().Backward() }, torch.KindRuntime, nil, "backward", [][]int{{}}, "does not require grad"},
		{"two backwards", func() { y := leaf.Exp().Sum(); y.Backward(); y.Backward() }, torch.KindRuntime, nil, "backward", [][]int{{}}, "Trying to backward through the graph a second time"},
		{"unused input", func() {
			torch.Grad([]*torch.Tensor{leaf.Sum()}, []*torch.Tensor{torch.Ones(torch.S(1), torch.RequiresGrad)})
		}, torch.KindRuntime, nil, "grad", [][]int{{}}, "appears to not have been used in the graph"},
		{"gradient's shape", func() { leaf.SetGrad(x) }, torch.KindRuntime, nil, "set_grad", [][]int{{2}, {2, 3}}, "assigned grad has shape [2, 3], the tensor has [2]"},
	} {
		t.Run(r.name, r.check)
	}
	require.PanicsWithValue(t, "other", func() { _ = torch.Try(func() { panic("other") }) }, "Try lets other panics pass")
	require.NoError(t, torch.Try(func() { x.Add(x) }))
	require.Error(t, torch.LoadOps(fmt.Sprintf("%s/none.so", t.TempDir())))
	require.ErrorIs(t, torch.LoadOps("none.so"), torch.ErrLibrary)
}

func TestOverloads(t *testing.T) {
	require.Subset(t, torch.Overloads("aten::add"), []string{"Tensor", "Scalar", "out"})
	require.Contains(t, torch.Overloads("aten::mm"), "")
	require.Nil(t, torch.Overloads("aten::nothing"))
	require.True(t, torch.Has("aten::add.Tensor"))
	require.False(t, torch.Has("aten::add"))
	require.Equal(t, "aten::mm(Tensor self, Tensor mat2) -> Tensor", torch.Schema("aten::mm"))
}

func TestCallTakesTheSchemasDefault(t *testing.T) {
	x := torch.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	got := torch.Call("aten::sum.dim_IntList", x, []int{0}, torch.Default, torch.Float64)[0].(*torch.Tensor)
	require.Equal(t, []int{2}, got.Shape(), "keepdim is false by default")
	require.Equal(t, torch.Float64, got.DType())
	require.Equal(t, []float64{4, 6}, torch.ToSlice[float64](got))
}
