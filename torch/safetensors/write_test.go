package safetensors

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// TestSameBytesAsPython writes again what the Python library wrote, from any order, and expects the same file.
func TestSameBytesAsPython(t *testing.T) {
	paths, err := filepath.Glob(testroot.Testdata("safetensors", "*.safetensors"))
	require.NoError(t, err)
	require.Len(t, paths, 4)
	for _, path := range paths {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := Open(path)
		require.NoError(t, err)
		tensors := readAll(t, f)
		slices.Reverse(tensors)

		var got bytes.Buffer
		require.NoError(t, Encode(&got, tensors, f.Metadata()))
		require.Equal(t, want, got.Bytes(), path)

		out := filepath.Join(t.TempDir(), "out.safetensors")
		for i := range tensors {
			data := tensors[i].Data
			tensors[i].Data = nil
			tensors[i].Stream = func(w io.Writer) error {
				for _, b := range data { // in the smallest pieces
					if _, err := w.Write([]byte{b}); err != nil {
						return err
					}
				}
				return nil
			}
		}
		require.NoError(t, Write(out, tensors, f.Metadata()))
		written, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, want, written, path)
		require.NoError(t, f.Close())
	}
}

// TestRoundTripEveryDtype writes and reads a tensor of each dtype, of sizes with and without padding after the header.
func TestRoundTripEveryDtype(t *testing.T) {
	for n := range 9 {
		var tensors []Tensor
		for i, d := range dtypes {
			shape := []int64{8, int64(i), 1}
			size, err := d.name.Size(shape)
			require.NoError(t, err)
			require.Equal(t, int64(d.name.Bits()*i), size)
			data := make([]byte, size)
			for j := range data {
				data[j] = byte(j*31 + i)
			}
			name := strings.Repeat("n", n) + string(d.name)
			tensors = append(tensors, Tensor{Name: name, Dtype: d.name, Shape: shape, Data: data})
		}
		meta := map[string]string{"z": "1", "a": strings.Repeat("x", n), "": ""}
		var file bytes.Buffer
		require.NoError(t, Encode(&file, tensors, meta))
		require.Zero(t, bytes.IndexByte(file.Bytes()[8:], '{'))
		f, err := Parse(bytes.NewReader(file.Bytes()), int64(file.Len()))
		require.NoError(t, err)
		require.Equal(t, meta, f.Metadata())
		require.Zero(t, f.start%8)
		require.ElementsMatch(t, tensors, readAll(t, f))
	}
}

func TestWriteRefuses(t *testing.T) {
	ok := Tensor{Name: "a", Dtype: U8, Shape: []int64{2}, Data: []byte{1, 2}}
	with := func(change func(*Tensor)) []Tensor {
		b := ok
		b.Name = "b"
		change(&b)
		return []Tensor{ok, b}
	}
	nothing := func(io.Writer) error { return nil }
	var huge []Tensor
	for i := range 9 {
		huge = append(huge, Tensor{Name: strings.Repeat("h", i), Dtype: U8, Shape: []int64{1<<60 - 1}, Stream: nothing})
	}
	many := map[string]string{}
	for i := range MaxMetadata + 1 {
		many[strings.Repeat("k", i)] = ""
	}
	for want, c := range map[string]struct {
		tensors  []Tensor
		metadata map[string]string
	}{
		"two tensors have this name":      {[]Tensor{ok, ok}, nil},
		"taken by the metadata":           {with(func(t *Tensor) { t.Name = "__metadata__" }), nil},
		"name is not valid UTF-8":         {with(func(t *Tensor) { t.Name = "\xff" }), nil},
		`unknown dtype "float32"`:         {with(func(t *Tensor) { t.Dtype = "float32" }), nil},
		"negative dimension":              {with(func(t *Tensor) { t.Shape = []int64{-1, -2} }), nil},
		"takes 3 bytes, Data has 2":       {with(func(t *Tensor) { t.Shape = []int64{3} }), nil},
		"does not fill whole bytes":       {with(func(t *Tensor) { t.Dtype, t.Shape = F4, []int64{3} }), nil},
		"overflows 64 bits":               {with(func(t *Tensor) { t.Shape = []int64{1 << 40, 1 << 40} }), nil},
		"the tensors together overflow":   {huge, nil},
		"65 dimensions, at most 64":       {with(func(t *Tensor) { t.Shape = make([]int64, 65) }), nil},
		`metadata "k" is not valid UTF-8`: {[]Tensor{ok}, map[string]string{"k": "\xff"}},
		"4097 metadata entries, at most":  {[]Tensor{ok}, many},
	} {
		path := filepath.Join(t.TempDir(), "f")
		err := Write(path, c.tensors, c.metadata)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
		require.NoFileExists(t, path)
		require.ErrorContains(t, Encode(io.Discard, c.tensors, c.metadata), want)
	}
}

func TestHeaderCap(t *testing.T) {
	_, err := newPlan(nil, map[string]string{"k": strings.Repeat("v", MaxHeader)})
	require.ErrorContains(t, err, "at most 100000000 are allowed")
}

// TestStreamMustWriteItsSize: a tensor that writes too little, too much or fails leaves the old file as it was.
func TestStreamMustWriteItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	boom := errors.New("boom")
	stream := func(n int, err error) []Tensor {
		return []Tensor{{Name: "t", Dtype: F32, Shape: []int64{2}, Stream: func(w io.Writer) error {
			if _, err := w.Write(make([]byte, n)); err != nil {
				return err
			}
			return err
		}}}
	}
	require.NoError(t, Write(path, stream(8, nil), nil))
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, c := range []struct {
		n    int
		err  error
		want string
	}{
		{7, nil, `tensor "t": Stream wrote 1 bytes too few`},
		{9, nil, "1 bytes too many"},
		{4, boom, `tensor "t": boom`},
	} {
		err := Write(path, stream(c.n, c.err), nil)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, path)
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, old, now, c.want)
	}
	require.ErrorContains(t, Write(filepath.Join(path, "g"), stream(8, nil), nil), filepath.Join(path, "g"))
}

// full fails after some bytes.
type full int

func (f *full) Write(p []byte) (int, error) {
	if *f -= full(len(p)); *f < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestEncodeReportsTheWriter(t *testing.T) {
	tensors := []Tensor{{Name: "t", Dtype: U8, Shape: []int64{4}, Data: make([]byte, 4)}}
	var file bytes.Buffer
	require.NoError(t, Encode(&file, tensors, nil))
	for n := range file.Len() {
		f := full(n)
		require.ErrorIs(t, Encode(&f, tensors, nil), io.ErrShortWrite)
	}
}
