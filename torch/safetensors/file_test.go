package safetensors

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// readAll turns a file into what Encode takes.
func readAll(t testing.TB, f *File) []Tensor {
	t.Helper()
	var tensors []Tensor
	for _, name := range f.Names() {
		info, ok := f.Info(name)
		require.True(t, ok, "%q", name)
		data, err := f.Bytes(name)
		require.NoError(t, err)
		tensors = append(tensors, Tensor{Name: name, Dtype: info.Dtype, Shape: info.Shape, Data: data})
	}
	return tensors
}

// TestPythonFiles reads files that the Python library wrote (every dtype of PyTorch, odd names, empty tensors, scalars)
// and compares with what the Python library reads back from them.
func TestPythonFiles(t *testing.T) {
	var golden struct {
		Files map[string]struct {
			Metadata   map[string]string
			Keys       []string
			OffsetKeys []string `json:"offset_keys"`
			Tensors    map[string]struct {
				Shape []int64
				Dtype Dtype
				Hex   string
			}
		}
	}
	text, err := os.ReadFile(testroot.Testdata("safetensors", "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Len(t, golden.Files, 3)
	for name, want := range golden.Files {
		f, err := Open(testroot.Testdata("safetensors", name+".safetensors"))
		require.NoError(t, err)
		require.Equal(t, want.Metadata, f.Metadata())
		require.Equal(t, want.Keys, f.SortedNames())
		require.Equal(t, want.OffsetKeys, f.Names())
		require.Equal(t, len(want.Keys), f.Len())
		for key, w := range want.Tensors {
			info, ok := f.Info(key)
			require.True(t, ok, key)
			require.Equal(t, key, info.Name)
			require.Equal(t, w.Dtype, info.Dtype, key)
			require.Equal(t, w.Shape, info.Shape, key)
			data, err := f.Bytes(key)
			require.NoError(t, err)
			require.Equal(t, w.Hex, hex.EncodeToString(data), key)
			require.Equal(t, int64(len(data)), info.Size)

			whole, err := os.ReadFile(f.String())
			require.NoError(t, err)
			require.Equal(t, whole[info.Offset:info.Offset+info.Size], data)
		}
		require.NoError(t, f.Close())
	}
}

func TestMissingTensorAndWrongDestination(t *testing.T) {
	path := testroot.Testdata("safetensors", "torch_nometa.safetensors")
	f, err := Open(path)
	require.NoError(t, err)
	_, ok := f.Info("nothing")
	require.False(t, ok)
	_, err = f.Bytes("nothing")
	require.ErrorContains(t, err, path+` has no tensor "nothing" among its 3`)
	require.ErrorContains(t, f.ReadInto("a", make([]byte, 23)), "has 24 bytes, the destination 23")
	require.Nil(t, f.Metadata())
	require.NoError(t, f.Close())
	_, err = f.Bytes("a")
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorContains(t, err, path)
}

func TestMetadataIsACopy(t *testing.T) {
	f, err := Open(testroot.Testdata("safetensors", "torch_dtypes.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	f.Metadata()["format"] = "changed"
	require.Equal(t, map[string]string{"format": "pt"}, f.Metadata())
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
	_, err = Open("/dev/zero")
	require.ErrorContains(t, err, "not a regular file")
}

// TestTruncated cuts a file at every length, before and after it is opened.
func TestTruncated(t *testing.T) {
	whole, err := os.ReadFile(testroot.Testdata("safetensors", "torch_dtypes.safetensors"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cut.safetensors")
	for n := range len(whole) {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		_, err := Open(path)
		var fe *FormatError
		require.ErrorAs(t, err, &fe, "%d bytes", n)
		require.Equal(t, path, fe.Path)
		require.ErrorContains(t, err, path+" is not a valid safetensors file")
		require.ErrorContains(t, err, "is it truncated?")
	}

	require.NoError(t, os.WriteFile(path, whole, 0o600))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Truncate(path, int64(len(whole)-2)))
	_, err = f.Bytes("bool")
	require.ErrorContains(t, err, "was it cut short meanwhile?")
	require.ErrorContains(t, err, path)
}

func TestConcurrentReads(t *testing.T) {
	f, err := Open(testroot.Testdata("safetensors", "torch_dtypes.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	want := readAll(t, f)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				w := want[(i*7+j)%len(want)]
				got := make([]byte, len(w.Data))
				if err := f.ReadInto(w.Name, got); err != nil || !bytes.Equal(got, w.Data) {
					t.Errorf("%s: %v", w.Name, err)
				}
				f.Info(w.Name)
				f.Metadata()
			}
		})
	}
	wg.Wait()
}

// TestMobileNet reads the weights of a real network.
func TestMobileNet(t *testing.T) {
	path := testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors")
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, 314, f.Len())
	require.Equal(t, "torchvision mobilenet_v2", f.Metadata()["naming"])
	counts := map[Dtype]int{}
	var bytes int64
	for _, name := range f.Names() {
		info, ok := f.Info(name)
		require.True(t, ok)
		counts[info.Dtype]++
		bytes += info.Size
	}
	require.Equal(t, map[Dtype]int{F32: 262, I64: 52}, counts)
	require.Equal(t, f.DataSize(), bytes)
	info, _ := f.Info("classifier.1.weight")
	require.Equal(t, []int64{1000, 1280}, info.Shape)
	require.Equal(t, "features.0.0.weight", f.Names()[0])
	require.True(t, slices.IsSorted(f.SortedNames()))
}

func TestHash(t *testing.T) {
	got, err := Hash(testroot.Testdata("safetensors", "torch_empty.safetensors"))
	require.NoError(t, err)
	require.Equal(t, "9bbcbf73561f6bc5d0a17ea6a2081feed2d1304e87602d8c502d9a5c4bd85576", got)
	_, err = Hash(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
