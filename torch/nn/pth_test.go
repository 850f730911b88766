package nn

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

// TestLoadPTH compares tensors of strided, shared, parameter and checkpoint files with the bytes that torch.load gives.
func TestLoadPTH(t *testing.T) {
	text, err := os.ReadFile(testroot.Testdata("pth", "expected.json"))
	require.NoError(t, err)
	var goldens map[string]map[string]struct {
		Shape, Stride []int
		Hex           string
	}
	require.NoError(t, json.Unmarshal(text, &goldens))
	for name, want := range goldens {
		sd, err := LoadPTH(testroot.Testdata("pth", name))
		if name == "dtypes.pth" || name == "dtypes_legacy.pth" { // complex, float8
			require.ErrorContains(t, err, "is not supported")
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, sd, len(want))
		for key, w := range want {
			require.Equal(t, w.Shape, sd[key].Shape(), key)
			require.Equal(t, w.Hex, hex.EncodeToString(sd[key].Bytes()), "%s %s", name, key)
		}
		sd.Free()
	}
}

// TestPTHSharesMemory: tied weights stay tied.
func TestPTHSharesMemory(t *testing.T) {
	sd, err := LoadPTH(testroot.Testdata("pth", "tied.pth"))
	require.NoError(t, err)
	defer sd.Free()
	sd["a"].Fill_(7)
	require.Equal(t, []float32{7, 7, 7, 7, 7, 7}, torch.ToSlice[float32](sd["b"]))
	require.Equal(t, []float32{7, 7, 7, 7}, torch.ToSlice[float32](sd["c"]))
}

// TestPTHRoundTrip writes every type that state dicts have, from contiguous and strided tensors.
func TestPTHRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.pth")
	torch.Scope(func(*torch.Arena) {
		base := torch.FromSlice([]float32{0, 1, 1, 0, 2, 3}, 2, 3)
		sd := StateDict{"strided": base.Transpose(0, 1), "scalar": torch.FromSlice([]int64{9}, 1).Squeeze(0)}
		for d := range pthTypes {
			sd["as."+d.String()] = base.ToDType(d)
		}
		require.NoError(t, SavePTH(path, sd))
		back, err := LoadPTH(path)
		require.NoError(t, err)
		require.Equal(t, sd.Keys(), back.Keys())
		for k, want := range sd {
			require.Equal(t, want.DType(), back[k].DType(), k)
			require.Equal(t, want.Shape(), back[k].Shape(), k)
			require.Equal(t, want.Bytes(), back[k].Bytes(), k)
		}
		require.ErrorContains(t, SavePTH(path, StateDict{"c": torch.Call("aten::complex", base, base)[0].(*torch.Tensor)}), `tensor "c"`)
	})
	_, err := LoadPTH(path, "model")
	require.ErrorContains(t, err, `its root has no "model"; it has as.`)
}

// TestLoadFile: the kind of a file is told by its content.
func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(testroot.Testdata("pth", "tied.pth"))
	require.NoError(t, err)
	misnamed := filepath.Join(dir, "model.safetensors")
	require.NoError(t, os.WriteFile(misnamed, whole, 0o600))
	for path, tensors := range map[string]int{
		misnamed: 3,
		testroot.Testdata("pth", "views_legacy.pth"):                                12,
		testroot.Testdata("safetensors", "torch_nometa.safetensors"):                -1,
		testroot.Testdata("safetensors", "sharded", "model.safetensors.index.json"): 10,
	} {
		sd, err := LoadFile(path)
		require.NoError(t, err, path)
		if tensors >= 0 {
			require.Len(t, sd, tensors, path)
		}
		require.NotEmpty(t, sd)
		sd.Free()
	}
	_, err = LoadFile(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
