package pth

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch/safetensors"
	"github.com/stretchr/testify/require"
)

type golden struct {
	Dtype        Dtype
	Shape        []int64
	Stride       []int64
	Offset       int64
	Parameter    bool
	RequiresGrad bool `json:"requires_grad"`
	Hex          string
}

func goldens(t testing.TB) map[string]map[string]golden {
	t.Helper()
	text, err := os.ReadFile(testroot.Testdata("pth", "expected.json"))
	require.NoError(t, err)
	var g map[string]map[string]golden
	require.NoError(t, json.Unmarshal(text, &g))
	require.Len(t, g, 11)
	return g
}

// TestTorchFiles reads files that torch.save and torch.jit.save wrote (every dtype, strided, shared and empty tensors,
// parameters, both containers, pickle protocols 2, 4 and 5, big-endian) and compares each tensor with what torch.load gives.
func TestTorchFiles(t *testing.T) {
	for name, want := range goldens(t) {
		f, err := Open(testroot.Testdata("pth", name))
		require.NoError(t, err, name)
		entries, err := f.StateDict()
		require.NoError(t, err, name)
		require.Len(t, entries, len(want), name)
		for _, e := range entries {
			w, ok := want[e.Name]
			require.True(t, ok, e.Name)
			b, err := f.Bytes(e.Tensor)
			require.NoError(t, err, "%s %s", name, e.Name)
			got := golden{e.Tensor.Dtype, e.Tensor.Shape, e.Tensor.Stride, e.Tensor.Offset, e.Tensor.Parameter, e.Tensor.RequiresGrad, hex.EncodeToString(b)}
			if f.Format() == TorchScript {
				got.RequiresGrad, w.RequiresGrad = false, false
			}
			require.Equal(t, w, got, "%s %s", name, e.Name)
		}
		require.NoError(t, f.Close())
	}
}

// TestSharedStorage: what shares memory in PyTorch shares a storage here.
func TestSharedStorage(t *testing.T) {
	f, err := Open(testroot.Testdata("pth", "tied.pth"))
	require.NoError(t, err)
	defer f.Close()
	e, err := f.StateDict()
	require.NoError(t, err)
	require.Same(t, e[0].Tensor.Storage, e[1].Tensor.Storage)
	require.Same(t, e[0].Tensor.Storage, e[2].Tensor.Storage)
	require.Len(t, f.Storages(), 1)
	whole := make([]byte, f.Storages()[0].Size())
	require.NoError(t, f.ReadStorage(f.Storages()[0], Float32, whole))
	first, err := f.Bytes(e[0].Tensor)
	require.NoError(t, err)
	require.Equal(t, first, whole)
}

func TestValues(t *testing.T) {
	f, err := Open(testroot.Testdata("pth", "values.pth"))
	require.NoError(t, err)
	defer f.Close()
	d := f.Root().(*Dict)
	power, _ := new(big.Int).SetString("1180591620717411303424", 10)
	for key, want := range map[any]any{
		"none": nil, "true": true, "false": false, "int": int64(-5), "large": int64(70000), "negative": int64(-1 << 40),
		"big": power, "bigneg": new(big.Int).Neg(power), "float": 0.1, "text": "Zürich ✓", "bytes": []byte("\x00\xffxy"),
		"complex": complex(1, -2), "list": &List{[]any{int64(1), &List{[]any{int64(2), "3"}}, Tuple(nil)}},
		"tuple": Tuple{int64(1), Tuple{int64(2), int64(3)}, int64(4), int64(5)}, "size": Size{2, 3}, "dtype": Float16,
		"device": Device("cuda:1"), "set": &Set{[]any{int64(5)}}, "scalar": 1.5, "nbool": true, "nint": int64(-3), int64(3): "three",
	} {
		got, ok := d.Get(key)
		require.True(t, ok, key)
		require.Equal(t, want, got, key)
	}
	got, ok := d.Get(Tuple{"tuple", int64(1)})
	require.True(t, ok)
	require.Equal(t, "key", got)
	_, ok = d.Get(&List{})
	require.False(t, ok)
	counter, _ := d.Get("counter")
	require.Equal(t, []Item{{"a", int64(2)}, {"b", int64(1)}}, counter.(*Dict).Items)

	array := func(key string) *npy.Array {
		a, _ := d.Get(key)
		return a.(*npy.Array)
	}
	ints, err := array("array").Int64()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5}, ints)
	require.Equal(t, []int64{2, 3}, array("array").Shape)
	floats, err := array("fortran").Float64()
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5}, floats)
	floats, err = array("big_endian").Float64()
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 2}, floats)
	words, err := array("strings").Strings()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "bcd"}, words)

	_, err = f.StateDict()
	require.ErrorContains(t, err, "holds no state dict under a usual key; name one of its keys: none, true,")
}

func TestCheckpoint(t *testing.T) {
	f, err := Open(testroot.Testdata("pth", "checkpoint.pth"))
	require.NoError(t, err)
	defer f.Close()
	d := f.Root().(*Dict)
	best, _ := d.Get("best")
	require.Equal(t, 91.25, best)
	args, _ := d.Get("args")
	require.Equal(t, "argparse.Namespace", args.(*Object).Class)
	lr, _ := args.(*Object).Attr.Get("lr")
	require.Equal(t, 0.1, lr)
	sd, _ := d.Get("state_dict")
	metadata, ok := sd.(*Dict).Attr.Get("_metadata")
	require.True(t, ok)
	version, _ := metadata.(*Dict).Get("1")
	number, _ := version.(*Dict).Get("version")
	require.Equal(t, int64(2), number, "BatchNorm's")
	named, err := f.StateDict("state_dict")
	require.NoError(t, err)
	found, err := f.StateDict()
	require.NoError(t, err)
	require.Equal(t, named, found)
	_, err = f.StateDict("ema")
	require.ErrorContains(t, err, `its root has no "ema"; it has epoch, arch, state_dict, optimizer`)
	_, err = f.StateDict("epoch", "x")
	require.ErrorContains(t, err, "epoch is a int, not a dict")
	_, err = f.StateDict("optimizer")
	require.ErrorContains(t, err, "optimizer holds no tensors")
}

// TestResNet20 reads weights that their author published in the format of before 1.6.
func TestResNet20(t *testing.T) {
	f, err := Open(testroot.Shared(t, "data", "weights", "resnet_cifar10", "resnet20-12fca82f.th"))
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, Legacy, f.Format())
	best, _ := f.Root().(*Dict).Get("best_prec1")
	require.InDelta(t, 91.78, best, 1e-4)
	sd, err := f.StateDict()
	require.NoError(t, err)
	parameters := int64(0)
	for _, e := range sd {
		if filepath.Ext(e.Name) != ".running_mean" && filepath.Ext(e.Name) != ".running_var" {
			parameters += e.Tensor.Numel()
		}
		require.Equal(t, "cuda:0", e.Tensor.Storage.Device)
	}
	require.EqualValues(t, 269722, parameters, "0.27 million, as its author says")
}

// TestCLIP compares OpenAI's two forms, a TorchScript archive and a state dict, with each other.
func TestCLIP(t *testing.T) {
	for _, kind := range []string{"openai_vit", "openai_rn"} {
		dir := testroot.Shared(t, "data", "clip_tiny", kind)
		script, err := Open(filepath.Join(dir, "model.pt"))
		require.NoError(t, err)
		require.Equal(t, TorchScript, script.Format())
		plain, err := Open(filepath.Join(dir, "state_dict.pt"))
		require.NoError(t, err)
		require.Equal(t, Zip, plain.Format())
		want := map[string][]byte{}
		entries, err := plain.StateDict()
		require.NoError(t, err)
		for _, e := range entries {
			want[e.Name], err = plain.Bytes(e.Tensor)
			require.NoError(t, err)
		}
		entries, err = script.StateDict()
		require.NoError(t, err)
		beside := 0
		for _, e := range entries {
			b, err := script.Bytes(e.Tensor)
			require.NoError(t, err)
			switch e.Name {
			case "input_resolution", "context_length", "vocab_size": // of the archive only
				beside++
				continue
			}
			w, ok := want[e.Name]
			require.True(t, ok, e.Name)
			if len(b) == len(w) { // the others are float32 in the archive
				require.Equal(t, w, b, e.Name)
			}
			delete(want, e.Name)
		}
		require.Equal(t, 3, beside)
		require.Empty(t, want)
		require.NoError(t, script.Close())
		require.NoError(t, plain.Close())
	}
}

func TestDtypes(t *testing.T) {
	for d, info := range dtypes {
		require.Equal(t, info.size, d.ItemSize())
		if s, ok := d.Safetensors(); ok {
			require.EqualValues(t, 8*info.size, s.Bits(), d)
		}
	}
	s, ok := BFloat16.Safetensors()
	require.True(t, ok)
	require.Equal(t, safetensors.BF16, s)
	_, ok = Complex128.Safetensors()
	require.False(t, ok)
	_, err := Dtype("float").Size(nil)
	require.ErrorContains(t, err, `unknown dtype "float"`)
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
}
