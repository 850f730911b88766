package pth

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestManySmallTensors reads files that torch.save wrote of hundreds to thousands of small tensors
// (testdata/pth/small.py).
func TestManySmallTensors(t *testing.T) {
	text, err := os.ReadFile(testroot.Testdata("pth", "small", "expected.json"))
	require.NoError(t, err)
	var want map[string]struct {
		Tensors, Bytes int
		SHA256         string
	}
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want, 7)
	for name, w := range want {
		file := expand(t, testroot.Testdata("pth", "small", name+".pth.gz"))
		require.Len(t, file, w.Bytes, name)
		path := filepath.Join(t.TempDir(), name+".pth")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		before := allocated()
		f, err := Open(path)
		require.NoError(t, err, name)
		require.Less(t, allocated()-before, uint64(len(file)+slack+w.Tensors*perTensor), name)
		h, n := sha256.New(), 0
		eachTensor(f.Root(), "", func(name string, x *Tensor) {
			b, err := f.Bytes(x)
			require.NoError(t, err)
			shape := strings.ReplaceAll(fmt.Sprint(x.Shape), " ", ", ")
			fmt.Fprintf(h, "%s|%s|%s|%s\n", name, x.Dtype, shape, hex.EncodeToString(b))
			n++
		})
		require.Equal(t, w.Tensors, n, name)
		require.Equal(t, w.SHA256, hex.EncodeToString(h.Sum(nil)), name)
		_, err = f.StateDict()
		require.NoError(t, err, name)
		require.NoError(t, f.Close())
	}
}

func expand(t *testing.T, path string) []byte {
	t.Helper()
	r, err := os.Open(path)
	require.NoError(t, err)
	defer r.Close()
	z, err := gzip.NewReader(r)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return b
}

// eachTensor visits the tensors of a structure in its order.
func eachTensor(x any, name string, visit func(name string, t *Tensor)) {
	switch x := x.(type) {
	case *Tensor:
		visit(name, x)
	case *Dict:
		for _, it := range x.Items {
			eachTensor(it.Value, fmt.Sprintf("%s.%v", name, it.Key), visit)
		}
	case *List:
		for i, v := range x.Items {
			eachTensor(v, fmt.Sprintf("%s.%d", name, i), visit)
		}
	case Tuple:
		for i, v := range x {
			eachTensor(v, fmt.Sprintf("%s.%d", name, i), visit)
		}
	}
}

// TestRepeatedTensors: what raises the account for a tensor is bounded by its share of the pickle, so one that is made
// again in five bytes is a bomb.
func TestRepeatedTensors(t *testing.T) {
	parts := tup(storageID("FloatStorage", "0", num(4)), num(0), tup(num(4)), tup(num(1)), "\x89", hooks)
	again := "h\x01h\x02R"
	file := archiveOf(t, begin+"]("+glob("torch._utils", "_rebuild_tensor_v2")+"q\x01"+parts+"q\x02R"+strings.Repeat(again, 100_000)+"e.")
	before := allocated()
	_, err := Parse(bytes.NewReader(file), int64(len(file)))
	require.ErrorContains(t, err, "object bomb")
	require.Less(t, allocated()-before, uint64(35*len(file)), "100,000 tensors would take 40 MB")
}

// TestSetLimit lets a process read files with more objects.
func TestSetLimit(t *testing.T) {
	var b strings.Builder
	b.WriteString(begin + "}(")
	for i := range 20000 {
		b.WriteString(num(int32(i)) + "}")
	}
	file := archiveOf(t, b.String()+"u.")
	open := func() error {
		_, err := Parse(bytes.NewReader(file), int64(len(file)))
		return err
	}
	require.ErrorContains(t, open(), "--file-budget")
	require.Zero(t, SetLimit(64<<20))
	require.NoError(t, open())
	require.Equal(t, int64(64<<20), SetLimit(0))
	require.ErrorContains(t, open(), "--file-budget")
}
