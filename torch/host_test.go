package torch_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

func roundTrip[T torch.Element](t *testing.T, want torch.DType, data ...T) {
	t.Run(want.String(), func(t *testing.T) {
		torch.Scope(func(*torch.Arena) {
			x := torch.FromSlice(data)
			require.Equal(t, want, x.DType())
			require.Equal(t, []int{len(data)}, x.Shape())
			require.Equal(t, data, torch.ToSlice[T](x))
			require.Equal(t, data[:2], torch.ToSlice[T](torch.FromSlice(data[:2], 2, 1).T()))
			require.Len(t, x.Bytes(), len(data)*want.Size())
			require.Equal(t, data, torch.ToSlice[T](torch.FromBytes(x.Bytes(), want, len(data), 1)))
			dst := make([]T, len(data))
			torch.CopyTo(dst, x)
			require.Equal(t, data, dst)
			zero := torch.Zeros(torch.S(len(data)), want)
			torch.CopyFrom(zero, data)
			require.Equal(t, data, torch.ToSlice[T](zero))
			torch.View(zero, func(v []T) {
				require.Equal(t, data, v)
				v[0] = v[1]
			})
			require.Equal(t, data[1], torch.ToSlice[T](zero)[0])
			require.Empty(t, torch.Scalar(data[0]).Shape())
			require.Equal(t, data[:1], torch.ToSlice[T](torch.Scalar(data[0])))
		})
	})
}

func TestSlices(t *testing.T) {
	roundTrip(t, torch.Bool, true, false, true)
	roundTrip(t, torch.Uint8, uint8(0), 200, 255)
	roundTrip(t, torch.Int8, int8(-128), 0, 127)
	roundTrip(t, torch.Int16, int16(-300), 0, 32767)
	roundTrip(t, torch.Int32, int32(-70000), 0, math.MaxInt32)
	roundTrip(t, torch.Int64, int64(math.MinInt64), 0, math.MaxInt64)
	roundTrip(t, torch.Float32, float32(-1.5), 0, math.MaxFloat32)
	roundTrip(t, torch.Float64, -1.5, math.SmallestNonzeroFloat64, math.Inf(1))
}

func TestToSliceConverts(t *testing.T) {
	x := torch.FromSlice([]float32{1.75, -2.25, 3}, 3, 1)
	require.Equal(t, []int64{1, -2, 3}, torch.ToSlice[int64](x))
	require.Equal(t, []bool{true, true, true}, torch.ToSlice[bool](x))
	require.Equal(t, []float64{1.75, -2.25, 3}, torch.ToSlice[float64](x.ToDType(torch.BFloat16)))
	leaf := torch.Ones(torch.S(2, 3), torch.RequiresGrad)
	require.Equal(t, []float32{2, 2, 2, 2, 2, 2}, torch.ToSlice[float32](leaf.MulScalar(2).T()))
	// A bool of libtorch may be any byte but 0.
	odd := torch.FromBytes([]byte{0, 1, 2, 255}, torch.Bool, 4)
	require.Equal(t, []bool{false, true, true, true}, torch.ToSlice[bool](odd))
	for _, b := range torch.ToSlice[bool](odd)[1:] {
		require.Equal(t, true, b == true)
	}
}

// A layout that is not row-major is copied in row-major order.
func TestToSliceStrides(t *testing.T) {
	x := torch.Arange(0, 24, 1).Reshape(2, 3, 4)
	require.Equal(t, []int64{0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11, 23},
		torch.ToSlice[int64](x.Permute(2, 1, 0)))
	require.Equal(t, []int64{5, 7}, torch.ToSlice[int64](x.At(0, 1, torch.R(1, torch.End, 2))))
	require.Equal(t, []int64{9, 9, 9}, torch.ToSlice[int64](x.At(0, 2, 1).Expand(3)))
}

func TestEmptyAndZeroDimensional(t *testing.T) {
	for _, shape := range [][]int{{0}, {0, 3}, {2, 0, 4}} {
		x := torch.FromSlice([]float32{}, shape...)
		require.Equal(t, shape, x.Shape())
		require.Zero(t, x.Numel())
		require.Empty(t, torch.ToSlice[float32](x))
		require.NotNil(t, torch.ToSlice[float32](x))
		require.Empty(t, torch.ToSlice[int64](x))
		require.Empty(t, x.Bytes())
		torch.CopyTo([]float32(nil), x.ToDType(torch.Float32))
		torch.CopyFrom(x, []float32{})
		torch.View(x, func(v []float32) { require.Empty(t, v) })
		require.Zero(t, x.Sum().Item())
	}
	require.Equal(t, []int{0}, torch.FromSlice[float32](nil).Shape())
	s := torch.Scalar(int32(7))
	require.Equal(t, []int{}, s.Shape())
	require.Equal(t, []int{}, s.Strides())
	require.Equal(t, 0, s.Dim())
	require.Equal(t, 1, s.Numel())
	require.Equal(t, 7, s.ItemInt())
	require.Equal(t, []int{}, torch.Zeros(torch.S()).Shape())
	require.Equal(t, []int{}, torch.Zeros(nil).Shape())
	require.Equal(t, []int{1}, s.Reshape(1).Shape())
	require.Equal(t, []int{}, s.Reshape().Shape())
	require.Equal(t, []int{}, s.View().Shape())
	torch.View(s, func(v []int32) { require.Equal(t, []int32{7}, v) })
}

func TestItem(t *testing.T) {
	require.Equal(t, 2.5, torch.Full(torch.S(1, 1), 2.5).Item())
	require.Equal(t, 3., torch.Full(torch.S(), 3).Item())
	require.Equal(t, 1., torch.Scalar(true).Item())
	require.Equal(t, 1, torch.Scalar(true).ItemInt())
	require.Equal(t, math.MinInt64, torch.Scalar(int64(math.MinInt64)).ItemInt())
	require.True(t, math.IsNaN(torch.Scalar(math.NaN()).Item()))
	require.ErrorContains(t, torch.Try(func() { torch.Zeros(torch.S(2)).Item() }), "item")
	require.ErrorContains(t, torch.Try(func() { torch.Zeros(torch.S(0)).Item() }), "item")
	require.ErrorContains(t, torch.Try(func() { torch.Scalar(1.5).ItemInt() }), "use Item")
}

func TestHostErrors(t *testing.T) {
	x := torch.Arange(0., 6., 1.).Reshape(2, 3)
	meta := torch.Empty(torch.S(2), torch.Meta)
	sparse := torch.Call("aten::to_sparse", torch.Eye(2))[0].(*torch.Tensor)
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"from_slice: [2 2]: the data has 3 elements of float32, the shape wants 4", func() { torch.FromSlice([]float32{1, 2, 3}, 2, 2) }},
		{"from_slice: [-1]: a size is negative", func() { torch.FromSlice([]float32{1}, -1) }},
		{"the shape has too many elements", func() { torch.FromSlice([]float32{1}, 1<<31, 1<<31, 4) }},
		{"the data has 1 elements of int64, the shape wants 1", func() { torch.FromBytes(make([]byte, 9), torch.Int64, 1) }},
		{"copy_to: [2 3]: 6 elements of float32 do not fit 5 of float32", func() { torch.CopyTo(make([]float32, 5), x) }},
		{"copy_to: [2 3]: 6 elements of float32 do not fit 6 of float64", func() { torch.CopyTo(make([]float64, 6), x) }},
		{"copy_from: [2 3]: 5 elements of float32 do not fill 6 of float32", func() { torch.CopyFrom(x, make([]float32, 5)) }},
		{"copy_from: [3 2]: the tensor is not contiguous", func() { torch.CopyFrom(x.T(), make([]float32, 6)) }},
		{"view: the tensor holds float32, not int32", func() { torch.View(x, func([]int32) {}) }},
		{"view: [3 2]: the tensor is not contiguous; call Contiguous first", func() { torch.View(x.T(), func([]float32) {}) }},
		{"copy_from: the tensor is on meta", func() { torch.CopyFrom(meta, []float32{1, 2}) }},
		{"view: [2 2]: the tensor is not contiguous", func() { torch.View(sparse, func([]float32) {}) }},
	} {
		err := torch.Try(c.f)
		require.Error(t, err, c.want)
		require.ErrorContains(t, err, c.want)
	}
	require.Error(t, torch.Try(func() { torch.ToSlice[float32](meta) }))
	freed := torch.Zeros(torch.S(1))
	freed.Free()
	for i, f := range []func(){
		func() { torch.ToSlice[float32](freed) }, func() { torch.CopyTo(make([]float32, 1), freed) }, func() { torch.CopyFrom(freed, []float32{1}) },
		func() { torch.View(freed, func([]float32) {}) }, func() { freed.Bytes() }, func() { freed.Item() }, func() { freed.ItemInt() },
		func() { freed.Shape() }, func() { freed.Numel() }, func() { freed.DType() }, func() { freed.Device() }, func() { freed.Retain() },
	} {
		require.ErrorIs(t, torch.Try(f), torch.ErrHandle, fmt.Sprint(i))
	}
}

// A number that is no dtype never reaches libtorch, which would read beyond a table.
func TestNoSuchDType(t *testing.T) {
	x := torch.Ones(torch.S(2))
	for _, f := range []func(){
		func() { torch.Zeros(torch.S(1), torch.DType(99)) },
		func() { torch.Zeros(torch.S(1), torch.DType(-1)) },
		func() { x.ToDType(torch.DType(300)) },
		func() { torch.Call("aten::cumsum", x, 0, torch.DType(77)) },
		func() { torch.Call("aten::sum", x, 1<<40) },
	} {
		err := torch.Try(f)
		require.ErrorIs(t, err, torch.ErrType)
		require.ErrorContains(t, err, "is no element type")
	}
}
