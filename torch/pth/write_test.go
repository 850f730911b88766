package pth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// examples are a tensor of each dtype, a scalar and an empty one.
func examples() []NamedTensor {
	var ts []NamedTensor
	for _, d := range []Dtype{Bool, Uint8, Int8, Uint16, Int16, Uint32, Int32, Uint64, Int64, Float8E4M3FN, Float8E5M2, Float8E4M3FNUZ,
		Float8E5M2FNUZ, Float8E8M0FNU, Float16, BFloat16, Float32, Float64, Complex32, Complex64, Complex128} {
		data := make([]byte, 6*d.ItemSize())
		for i := range data {
			data[i] = byte(i*7 + len(ts))
			if d == Bool {
				data[i] &= 1
			}
		}
		ts = append(ts, NamedTensor{Name: "layer." + string(d), Dtype: d, Shape: []int64{2, 3}, Data: data})
	}
	return append(ts,
		NamedTensor{Name: "Zürich", Dtype: Float32, Data: []byte{0, 0, 128, 63}},
		NamedTensor{Name: "empty", Dtype: Int64, Shape: []int64{3, 0, 300}},
		NamedTensor{Name: "wide", Dtype: Uint8, Shape: []int64{1, 70000}, Data: make([]byte, 70000)},
	)
}

// TestTorchReadsOurs: the file is the one that check.py read with torch.load(weights_only=True), and that is what torch said.
func TestTorchReadsOurs(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Encode(&out, examples()))
	path := testroot.Testdata("pth", "written.bin")
	if os.Getenv("PTH_WRITE") != "" { // then run check.py
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(file, out.Bytes()), "the writer has changed: write with PTH_WRITE=1, run check.py")

	text, err := os.ReadFile(testroot.Testdata("pth", "written.json"))
	require.NoError(t, err)
	var want []struct {
		Name  string
		Dtype Dtype
		Shape []int64
		Hex   string
	}
	require.NoError(t, json.Unmarshal(text, &want))
	ours := examples()
	require.Len(t, want, len(ours))
	for i, e := range ours {
		require.Equal(t, want[i].Name, e.Name)
		require.Equal(t, want[i].Dtype, e.Dtype)
		require.ElementsMatch(t, want[i].Shape, e.Shape)
		require.Equal(t, want[i].Hex, hex.EncodeToString(e.Data[:min(len(e.Data), 64)]), e.Name)
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.pth")
	for range 2 { // the second replaces the first
		streamed := examples()
		for i := range streamed {
			data := streamed[i].Data
			streamed[i].Data = nil
			streamed[i].Stream = func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			}
		}
		require.NoError(t, Write(path, streamed))
	}
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	entries, err := f.StateDict()
	require.NoError(t, err)
	require.Len(t, entries, len(examples()))
	for i, e := range examples() {
		require.Equal(t, e.Name, entries[i].Name)
		b, err := f.Bytes(entries[i].Tensor)
		require.NoError(t, err)
		require.True(t, bytes.Equal(e.Data, b), e.Name)
		require.Equal(t, e.Dtype, entries[i].Tensor.Dtype)
		require.Zero(t, entries[i].Tensor.Storage.offset%alignment, e.Name)
	}
}

func TestWriteRefuses(t *testing.T) {
	ok := NamedTensor{Name: "a", Dtype: Uint8, Shape: []int64{2}, Data: []byte{1, 2}}
	stream := func(n int, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			if _, err := w.Write(make([]byte, n)); err != nil {
				return err
			}
			return err
		}
	}
	for want, c := range map[string][]NamedTensor{
		"two tensors have this name":     {ok, ok},
		"name is not valid UTF-8":        {{Name: "\xff", Dtype: Uint8}},
		`unknown dtype "F32"`:            {{Name: "a", Dtype: "F32"}},
		"negative dimension":             {{Name: "a", Dtype: Uint8, Shape: []int64{-1}}},
		"takes 3 bytes, Data has 2":      {{Name: "a", Dtype: Uint8, Shape: []int64{3}, Data: []byte{1, 2}}},
		"overflows 64 bits":              {{Name: "a", Dtype: Float32, Shape: []int64{1 << 40, 1 << 40}}},
		"65 dimensions":                  {{Name: "a", Dtype: Float32, Shape: make([]int64, 65)}},
		"Stream wrote 1 bytes too few":   {ok, {Name: "b", Dtype: Uint8, Shape: []int64{2}, Stream: stream(1, nil)}},
		"more than the tensor's size":    {ok, {Name: "b", Dtype: Uint8, Shape: []int64{2}, Stream: stream(3, nil)}},
		`tensor "b": the device is gone`: {ok, {Name: "b", Dtype: Uint8, Shape: []int64{2}, Stream: stream(1, errors.New("the device is gone"))}},
	} {
		path := filepath.Join(t.TempDir(), "f")
		err := Write(path, c)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
		require.NoFileExists(t, path)
	}
}
