package npy

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// golden is what numpy reads from a file.
type golden struct {
	Dtype   string
	Shape   []int64
	Hex     string
	Strings []string
	Float64 []string // C99 hexadecimal
	Int     []string
	Same    bool `json:"c_order_little_endian_v1"`
}

func goldens(t testing.TB) map[string]golden {
	t.Helper()
	var g struct{ Files map[string]golden }
	text, err := os.ReadFile(testroot.Testdata("npy", "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	require.Equal(t, 33, len(g.Files))
	return g.Files
}

// TestNumpyFiles reads files that numpy wrote (every dtype in both byte orders, Fortran order, all versions, scalars, empty)
// and compares bytes and values with what numpy reads.
func TestNumpyFiles(t *testing.T) {
	for name, want := range goldens(t) {
		path := testroot.Testdata("npy", name+".npy")
		a, err := Read(path)
		require.NoError(t, err)
		require.Equal(t, want.Dtype, a.Dtype, name)
		require.Equal(t, want.Shape, a.Shape, name)
		require.Equal(t, want.Hex, hex.EncodeToString(a.Data), name)

		switch {
		case want.Strings != nil:
			got, err := a.Strings()
			require.NoError(t, err)
			require.Equal(t, want.Strings, got, name)
		case want.Float64 != nil:
			got, err := a.Float64()
			require.NoError(t, err)
			require.Len(t, got, a.Len())
			for i, text := range want.Float64 {
				w, err := strconv.ParseFloat(text, 64)
				require.NoError(t, err)
				if math.IsNaN(w) {
					require.True(t, math.IsNaN(got[i]))
				} else {
					require.Equal(t, math.Float64bits(w), math.Float64bits(got[i]), "%s[%d]", name, i)
				}
			}
		default:
			checkIntegers(t, name, a, want.Int)
		}

		if want.Same { // written again it is numpy's file
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			var out bytes.Buffer
			require.NoError(t, Encode(&out, a))
			require.Equal(t, whole, out.Bytes(), name)
		}
	}
}

// checkIntegers compares all conversions of whole numbers with exact arithmetic.
func checkIntegers(t *testing.T, name string, a *Array, want []string) {
	t.Helper()
	var values []*big.Int
	exact := map[string]bool{"int64": true, "float32": true, "float64": true}
	for _, text := range want {
		v, ok := new(big.Int).SetString(text, 10)
		require.True(t, ok)
		values = append(values, v)
		exact["int64"] = exact["int64"] && v.IsInt64()
		_, acc := new(big.Float).SetInt(v).Float32()
		exact["float32"] = exact["float32"] && acc == big.Exact
		_, acc = new(big.Float).SetInt(v).Float64()
		exact["float64"] = exact["float64"] && acc == big.Exact
	}
	i64, err := a.Int64()
	require.Equal(t, exact["int64"], err == nil, "%s: %v", name, err)
	f32, err32 := a.Float32()
	require.Equal(t, exact["float32"], err32 == nil, "%s: %v", name, err32)
	f64, err64 := a.Float64()
	require.Equal(t, exact["float64"], err64 == nil, "%s: %v", name, err64)
	for i, v := range values {
		if err == nil {
			require.Equal(t, v.Int64(), i64[i], name)
		}
		if err32 == nil {
			w, _ := new(big.Float).SetInt(v).Float32()
			require.Equal(t, w, f32[i], name)
		}
		if err64 == nil {
			w, _ := new(big.Float).SetInt(v).Float64()
			require.Equal(t, w, f64[i], name)
		}
	}
}

func TestPython2Header(t *testing.T) {
	a, err := Read(testroot.Testdata("npy", "python2.npy"))
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3}, a.Shape)
	got, err := a.Int64()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5}, got)
}

func TestUnsupportedDtypes(t *testing.T) {
	paths, err := filepath.Glob(testroot.Testdata("npy", "refused_*.npy"))
	require.NoError(t, err)
	require.Len(t, paths, 7)
	for _, path := range paths {
		_, err := Read(path)
		var fe *FormatError
		require.ErrorAs(t, err, &fe, path)
		require.ErrorContains(t, err, "cannot read "+path)
		want := "is not supported"
		if strings.Contains(path, "object") {
			want = "pickled Python code and are refused"
		}
		if strings.Contains(path, "struct") {
			want = "structured dtypes are not supported"
		}
		require.ErrorContains(t, err, want)
	}
}

// TestFeatures reads the stored features of the MIML pictures.
func TestFeatures(t *testing.T) {
	a, err := Read(testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"))
	require.NoError(t, err)
	require.Equal(t, "<f4", a.Dtype)
	require.Equal(t, []int64{1600, 1280}, a.Shape)
	v, err := a.Float32()
	require.NoError(t, err)
	sum := 0.0
	for _, x := range v {
		sum += float64(x)
	}
	require.InDelta(t, 0.445937, sum/float64(len(v)), 1e-6)
	for i, want := range []float64{0.298842, 0.422355, 0, 0.474290, 0.889849} {
		require.InDelta(t, want, v[i], 1e-6)
	}
}

// TestTruncated cuts files at every length.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"f4", "U6", "fortran_i4", "version2"} {
		whole, err := os.ReadFile(testroot.Testdata("npy", name+".npy"))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "cut.npy")
		for n := range len(whole) {
			require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
			_, err := Read(path)
			var fe *FormatError
			require.ErrorAs(t, err, &fe, "%d bytes", n)
			require.Equal(t, path, fe.Path)
			require.ErrorContains(t, err, "is it truncated?")

			// and where the size that was promised is not there
			_, err = Decode(bytes.NewReader(whole[:n]), int64(len(whole)))
			require.ErrorAs(t, err, &fe)
			require.ErrorContains(t, err, "is it truncated?")
		}
		require.NoError(t, os.WriteFile(path, append(whole, 0), 0o600))
		_, err = Read(path)
		require.ErrorContains(t, err, "follow the header")
	}
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	_, err := Read(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Read(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
}
