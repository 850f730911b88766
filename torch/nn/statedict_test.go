package nn_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/safetensors"
)

func small() nn.Sequential {
	return nn.Sequential{nn.NewConv2d(1, 2, 3), nn.NewBatchNorm2d(2), nn.NewFlatten(), nn.NewLinear(8, 3)}
}

func TestLoadStateDict(t *testing.T) {
	torch.ManualSeed(1)
	a, b := small(), small()
	nn.SetTraining(a, true)
	a.Forward(torch.Randn(torch.S(2, 1, 4, 4)))
	sd := nn.StateDictOf(a).Clone()
	w := b[0].(*nn.Conv2d).Weight
	r, err := nn.LoadStateDict(b, sd, true)
	require.NoError(t, err)
	require.Equal(t, &nn.LoadReport{Loaded: 9}, r)
	require.Equal(t, "9 loaded", r.String())
	for k, x := range nn.StateDictOf(b) {
		require.True(t, x.Equal(sd[k]), k)
	}
	require.Same(t, w, b[0].(*nn.Conv2d).Weight)
	require.True(t, w.RequiresGrad() && w.IsLeaf())
	require.Equal(t, 1, b[1].(*nn.BatchNorm2d).NumBatchesTracked.ItemInt())
	// Clone made copies.
	nn.Zeros_(w)
	require.False(t, w.Equal(sd["0.weight"]))
}

func TestLoadStateDictConverts(t *testing.T) {
	m := small()
	sd := nn.StateDictOf(small()).Clone()
	for _, k := range []string{"0.weight", "0.bias"} {
		sd[k] = sd[k].ToDType(torch.Float16)
	}
	sd["3.bias"] = sd["3.bias"].ToDType(torch.Float64)
	sd["1.num_batches_tracked"] = torch.Scalar[float32](7)
	r, err := nn.LoadStateDict(m, sd, true)
	require.NoError(t, err)
	require.Len(t, r.Converted, 4)
	require.Equal(t, "9 loaded, 1 converted from float32 to int64, 1 converted from float64 to float32, 2 converted from float16 to float32", r.String())
	require.Equal(t, torch.Float32, m[0].(*nn.Conv2d).Weight.DType())
	require.Equal(t, 7, m[1].(*nn.BatchNorm2d).NumBatchesTracked.ItemInt())
}

func TestLoadStateDictReportsDifferences(t *testing.T) {
	m := small()
	before := nn.StateDictOf(m).Clone()
	sd := nn.StateDictOf(small()).Clone()
	delete(sd, "1.running_var")
	delete(sd, "1.num_batches_tracked")
	sd["4.weight"] = torch.Ones(torch.S(1))
	sd["3.weight"] = torch.Ones(torch.S(5, 8))
	sd["0.bias"] = torch.Ones(torch.S(2), torch.Int32)
	for _, strict := range []bool{true, false} {
		r, err := nn.LoadStateDict(m, sd, strict)
		var e *nn.LoadError
		require.True(t, errors.As(err, &e))
		require.Same(t, r, e.Report)
		require.Equal(t, []string{"1.running_var"}, r.Missing)
		require.Equal(t, []string{"4.weight"}, r.Unexpected)
		require.Equal(t, []nn.MisShaped{{Key: "3.weight", Module: []int{3, 8}, Got: []int{5, 8}}}, r.MisShaped)
		require.Equal(t, []nn.Converted{{Key: "0.bias", From: torch.Int32, To: torch.Float32}}, r.MisTyped)
		require.Equal(t, []string{"1.num_batches_tracked"}, r.Kept)
		for _, line := range []string{
			"nn: the state dict does not fit the module: 1 missing, 1 unexpected, 1 of another shape, 1 of another kind of number, 1 counters absent and kept\n",
			"  missing     1.running_var\n", "  unexpected  4.weight\n", "  shape       3.weight  module [3 8]    state dict [5 8]\n", "  type        0.bias    module float32  state dict int32",
		} {
			require.Contains(t, err.Error(), line)
		}
	}
	for k, x := range nn.StateDictOf(m) {
		require.True(t, x.Equal(before[k]), "%s was changed although loading failed", k)
	}

	// Without strict, what fits is taken.
	delete(sd, "3.weight")
	delete(sd, "0.bias")
	r, err := nn.LoadStateDict(m, sd, false)
	require.NoError(t, err)
	require.Equal(t, 5, r.Loaded)
	require.False(t, r.Complete())
	require.Equal(t, []string{"0.bias", "1.running_var", "3.weight"}, sortedCopy(r.Missing))
	require.True(t, m[0].(*nn.Conv2d).Weight.Equal(sd["0.weight"]))
}

func sortedCopy(s []string) []string {
	sd := nn.StateDict{}
	for _, k := range s {
		sd[k] = nil
	}
	return sd.Keys()
}

func TestLoadStateDictHints(t *testing.T) {
	m := small()
	sd := nn.StateDictOf(m)
	_, err := nn.LoadStateDict(m, sd.AddPrefix("module."), true)
	require.ErrorContains(t, err, `did you mean: 8 of the unexpected keys fit without their prefix "module." (StateDict.TrimPrefix)`)
	_, err = nn.LoadStateDict(m, sd.AddPrefix("module.").TrimPrefix("module."), true)
	require.NoError(t, err)
	_, err = nn.LoadStateDict(map[string]any{"features": m}, sd, true)
	require.ErrorContains(t, err, `did you mean: 8 of the unexpected keys fit with the prefix "features." (StateDict.AddPrefix)`)

	other := nn.StateDict{}
	for k, x := range sd {
		other[strings.Replace(k, "running_", "runing_", 1)] = x
	}
	_, err = nn.LoadStateDict(m, other, true)
	require.ErrorContains(t, err, `did you mean: "1.running_mean" for "1.runing_mean"`)

	// A long table is cut.
	many := nn.StateDict{}
	for k, x := range sd {
		many[k] = x
	}
	for i := range 40 {
		many[fmt.Sprintf("more.%02d", i)] = sd["0.bias"]
	}
	_, err = nn.LoadStateDict(m, many, true)
	require.ErrorContains(t, err, "… and 28 more")
	require.NotContains(t, err.Error(), "did you mean")
}

func TestSafetensorsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	torch.ManualSeed(4)
	sd := nn.StateDictOf(small()).Clone()
	x := torch.Randn(torch.S(2, 3))
	for _, d := range []torch.DType{torch.Bool, torch.Uint8, torch.Int8, torch.Int16, torch.Int32, torch.Int64, torch.Float16, torch.BFloat16, torch.Float32, torch.Float64} {
		sd["all."+d.String()] = x.MulScalar(10).Abs().ToDType(d)
	}
	sd["transposed"] = x.T()
	sd["empty"] = torch.Zeros(torch.S(0, 3))
	sd["empty_half"] = torch.Zeros(torch.S(0, 3), torch.Float16)
	sd["scalar_half"] = torch.Scalar[float32](1.5).ToDType(torch.BFloat16)
	require.NoError(t, nn.SaveSafetensors(path, sd, map[string]string{"format": "pt"}))

	got, meta, err := nn.LoadSafetensors(path)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"format": "pt"}, meta)
	require.Equal(t, sd.Keys(), got.Keys())
	for k, want := range sd {
		require.Equal(t, want.DType(), got[k].DType(), k)
		require.Equal(t, want.Shape(), got[k].Shape(), k)
		require.True(t, want.Equal(got[k]), k)
		require.True(t, got[k].IsContiguous(), k)
	}
	_, err = nn.LoadStateDict(small(), got, false)
	require.NoError(t, err)

	// Nothing is left when the tensors are freed.
	before := live()
	got, _, err = nn.LoadSafetensors(path)
	require.NoError(t, err)
	got.Free()
	require.Equal(t, before, torch.Live())
}

// The types of a file written by Python's library that libtorch has here too; the file is written anew without the others.
func TestSafetensorsFromPython(t *testing.T) {
	f, err := safetensors.Open(testroot.Testdata("safetensors", "torch_dtypes.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	raw := map[string][]byte{}
	var ts []safetensors.Tensor
	for _, k := range f.Names() {
		info, _ := f.Info(k)
		switch info.Dtype {
		case safetensors.BOOL, safetensors.U8, safetensors.I8, safetensors.I16, safetensors.I32, safetensors.I64, safetensors.F16, safetensors.BF16, safetensors.F32, safetensors.F64:
			raw[k], err = f.Bytes(k)
			require.NoError(t, err)
			ts = append(ts, safetensors.Tensor{Name: k, Dtype: info.Dtype, Shape: info.Shape, Data: raw[k]})
		}
	}
	require.Greater(t, len(raw), 10)
	path := filepath.Join(t.TempDir(), "some.safetensors")
	require.NoError(t, safetensors.Write(path, ts, nil))
	sd, _, err := nn.LoadSafetensors(path)
	require.NoError(t, err)
	require.Len(t, sd, len(raw))
	for k, x := range sd {
		require.Equal(t, append([]byte{}, raw[k]...), append([]byte{}, x.Bytes()...), k)
	}

	sd, meta, err := nn.LoadSafetensors(testroot.Testdata("safetensors", "torch_nometa.safetensors"))
	require.NoError(t, err)
	require.Empty(t, meta)
	require.Equal(t, []string{"B", "a", "b.weight"}, sd.Keys())
	require.Equal(t, []int{2, 3}, sd["b.weight"].Shape())
}

func TestSafetensorsErrors(t *testing.T) {
	dir := t.TempDir()
	_, _, err := nn.LoadSafetensors(filepath.Join(dir, "absent.safetensors"))
	require.ErrorIs(t, err, os.ErrNotExist)

	path := filepath.Join(dir, "f8.safetensors")
	require.NoError(t, safetensors.Write(path, []safetensors.Tensor{
		{Name: "a", Dtype: safetensors.F32, Shape: []int64{1}, Data: make([]byte, 4)},
		{Name: "w", Dtype: safetensors.F8_E4M3, Shape: []int64{2}, Data: []byte{1, 2}},
	}, nil))
	before := live()
	_, _, err = nn.LoadSafetensors(path)
	require.EqualError(t, err, path+`: tensor "w": the type F8_E4M3 is not supported`)
	require.Equal(t, before, torch.Live())

	require.NoError(t, os.Truncate(path, 20))
	_, _, err = nn.LoadSafetensors(path)
	var fe *safetensors.FormatError
	require.ErrorAs(t, err, &fe)

	freed := torch.Ones(torch.S(1))
	freed.Free()
	err = nn.SaveSafetensors(path, nn.StateDict{"w": freed}, nil)
	require.ErrorIs(t, err, torch.ErrHandle)
	require.ErrorContains(t, err, `tensor "w"`)
	err = nn.SaveSafetensors(path, nn.StateDict{"w": torch.Zeros(torch.S(1), torch.Complex64)}, nil)
	require.ErrorContains(t, err, "safetensors files do not hold complex64")
	require.Error(t, nn.SaveSafetensors(filepath.Join(dir, "no", "such.safetensors"), nn.StateDict{}, nil))
}
