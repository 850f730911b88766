package npy

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func roundTrip[T Element](t *testing.T, dtype string, data ...T) {
	t.Helper()
	for _, shape := range [][]int64{{int64(len(data))}, {1, int64(len(data)), 1}} {
		a, err := New(shape, data)
		require.NoError(t, err)
		require.Equal(t, dtype, a.Dtype)
		require.Equal(t, len(data), a.Len())
		path := filepath.Join(t.TempDir(), "a.npy")
		require.NoError(t, Write(path, a))
		b, err := Read(path)
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

func TestRoundTrip(t *testing.T) {
	roundTrip(t, "|b1", true, false)
	roundTrip[int8](t, "|i1", -128, 127)
	roundTrip[uint8](t, "|u1", 0, 255)
	roundTrip[int16](t, "<i2", -32768, 1)
	roundTrip[uint16](t, "<u2", 65535)
	roundTrip[int32](t, "<i4", -1<<31, 1<<31-1)
	roundTrip[uint32](t, "<u4", 1<<32-1)
	roundTrip[int64](t, "<i8", -1<<63, 1<<63-1)
	roundTrip[uint64](t, "<u8", 1<<64-1)
	roundTrip[float32](t, "<f4", 1.5)
	roundTrip(t, "<f8", 0.1, -0.2)
	roundTrip(t, "<U4", "2008", "é😀", "")
	roundTrip[float64](t, "<f8")
	roundTrip[string](t, "<U1")

	scalar, err := New(nil, []float64{2.5})
	require.NoError(t, err)
	require.Empty(t, scalar.Shape)
	got, err := scalar.Float64()
	require.NoError(t, err)
	require.Equal(t, []float64{2.5}, got)
}

func TestNewRefuses(t *testing.T) {
	_, err := New([]int64{3}, []float32{1, 2})
	require.ErrorContains(t, err, "takes 12 bytes, Data has 8")
	_, err = New([]int64{1}, []string{"\xff"})
	require.ErrorContains(t, err, "not valid UTF-8")
	_, err = New([]int64{1}, []string{"a\x00"})
	require.ErrorContains(t, err, "ends in NUL")
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.npy")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.ErrorContains(t, Write(path, &Array{Dtype: "<f4", Shape: []int64{2}}), path)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.ErrorContains(t, Write(filepath.Join(dir, "absent", "a.npy"), mustNew(t, 1.0)), filepath.Join(dir, "absent"))
	require.Error(t, Encode(io.Discard, &Array{Dtype: "<f4", Shape: []int64{2}}))

	var whole bytes.Buffer
	require.NoError(t, Encode(&whole, mustNew(t, 1.0)))
	for n := range whole.Len() {
		require.ErrorIs(t, Encode(&full{left: n}, mustNew(t, 1.0)), io.ErrShortWrite)
	}
}

// full takes some bytes, then fails.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
