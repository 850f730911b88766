package npy

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustNew[T Element](t testing.TB, data ...T) *Array {
	t.Helper()
	a, err := New([]int64{int64(len(data))}, data)
	require.NoError(t, err)
	return a
}

// TestLossyConversions: the largest values that pass and the smallest that would change.
func TestLossyConversions(t *testing.T) {
	refused := func(err error, want string) {
		t.Helper()
		require.ErrorContains(t, err, want)
	}
	_, err := mustNew(t, 1, 0.1).Float32()
	refused(err, "element 1 of shape [2], 0.1 in <f8, would change as float32")
	_, err = mustNew(t, 1e300).Float32()
	refused(err, "would change as float32")
	_, err = mustNew(t, 0.5, -2, math.Inf(1), math.NaN()).Float32()
	require.NoError(t, err)

	_, err = mustNew(t, int32(1<<24), 1<<25, -1<<31).Float32()
	require.NoError(t, err)
	_, err = mustNew(t, int32(1<<24+1)).Float32()
	refused(err, "16777217 in <i4, would change as float32")
	_, err = mustNew(t, int64(-1<<53), math.MinInt64).Float64()
	require.NoError(t, err)
	_, err = mustNew(t, int64(-1<<53-1)).Float64()
	refused(err, "would change as float64")
	_, err = mustNew(t, uint64(math.MaxUint64)).Float64()
	refused(err, "would change as float64")

	got, err := mustNew(t, -1<<63, 1<<62, math.Copysign(0, -1)).Int64()
	require.NoError(t, err)
	require.Equal(t, []int64{-1 << 63, 1 << 62, 0}, got)
	for _, v := range []float64{0.5, 1 << 63, math.Nextafter(-1<<63, math.Inf(-1)), math.NaN(), math.Inf(1)} {
		_, err = mustNew(t, v).Int64()
		refused(err, "would change as int64")
	}
	_, err = mustNew(t, uint64(1<<63)).Int64()
	refused(err, "9223372036854775808 in <u8, would change as int64")

	_, err = mustNew(t, "1").Float32()
	refused(err, "dtype <U1 has no float32 values")
	_, err = mustNew(t, "1").Int64()
	refused(err, "dtype <U1 has no int64 values")
	_, err = mustNew(t, 1.0).Strings()
	refused(err, "dtype <f8 has no strings")
}

func TestBoolean(t *testing.T) {
	a := mustNew(t, true, false)
	a.Data[0] = 2 // not numpy's own, True for numpy
	got, err := a.Int64()
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, got)
}

func TestStringsMustBeUnicode(t *testing.T) {
	a := mustNew(t, "ab", "cd")
	for _, c := range []uint32{0xd800, 0x110000, 0xffffffff} {
		binary.LittleEndian.PutUint32(a.Data[12:], c)
		_, err := a.Strings()
		require.ErrorContains(t, err, "element 1 of shape [2] holds 0x")
	}
}

// TestHandMadeArrays: the fields are open, so every use checks them.
func TestHandMadeArrays(t *testing.T) {
	for _, c := range []struct {
		a    Array
		want string
	}{
		{Array{Dtype: ">f4", Shape: []int64{1}, Data: make([]byte, 4)}, `an Array holds "<f4"`},
		{Array{Dtype: "<f4", Shape: []int64{2}, Data: make([]byte, 4)}, "takes 8 bytes, Data has 4"},
		{Array{Dtype: "<f4", Shape: []int64{-1}, Data: nil}, "negative dimension"},
		{Array{Dtype: "<f4", Shape: make([]int64, 65), Data: nil}, "65 dimensions"},
		{Array{Dtype: "<c8"}, "not supported"},
		{Array{}, "not supported"},
	} {
		_, err := c.a.Float32()
		require.ErrorContains(t, err, c.want)
		_, err = c.a.Float64()
		require.ErrorContains(t, err, c.want)
		_, err = c.a.Int64()
		require.ErrorContains(t, err, c.want)
		_, err = c.a.Strings()
		require.ErrorContains(t, err, c.want)
	}
}
