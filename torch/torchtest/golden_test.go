package torchtest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

func TestArray(t *testing.T) {
	for _, c := range []struct {
		json  string
		dtype torch.DType
		shape []int
		want  []float64
	}{
		{`[[1, 2, 3], [4, 5, 6]]`, torch.Int64, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{`[1.5, "nan", "-inf"]`, torch.Float64, []int{3}, []float64{1.5, math.NaN(), math.Inf(-1)}},
		{`[[true], [false]]`, torch.Bool, []int{2, 1}, []float64{1, 0}},
		{`2.5`, torch.Float64, []int{}, []float64{2.5}},
		{`[[], []]`, torch.Float64, []int{2, 0}, []float64{}},
		{`{"d":"f32","s":[2],"v":[0.1,1e-45]}`, torch.Float32, []int{2}, []float64{float64(float32(0.1)), 0x1p-149}},
		{`{"d":"b","s":[],"v":[true]}`, torch.Bool, []int{}, []float64{1}},
		{`{"d":"u8","s":[1,2],"v":[0,255]}`, torch.Uint8, []int{1, 2}, []float64{0, 255}},
		{`{"d":"bf16","s":[2,2],"v":[1,2,3,4],"n":1}`, torch.BFloat16, []int{2, 2}, []float64{1, 2, 3, 4}},
		{`{"d":"i64","s":[1],"v":[-9223372036854775808]}`, torch.Int64, []int{1}, []float64{-1 << 63}},
	} {
		t.Run(c.json, func(t *testing.T) {
			var a Array
			require.NoError(t, json.Unmarshal([]byte(c.json), &a))
			x := a.Tensor()
			require.Equal(t, c.dtype, x.DType())
			require.Equal(t, c.shape, x.Shape())
			require.Equal(t, !a.Strided, x.IsContiguous())
			got := torch.ToSlice[float64](x)
			require.Len(t, got, len(c.want))
			for i := range got {
				require.True(t, got[i] == c.want[i] || math.IsNaN(got[i]) && math.IsNaN(c.want[i]), "%v, want %v", got, c.want)
			}
		})
	}
	for _, bad := range []string{`[[1, 2], [3]]`, `[[1], 2]`, `[1, [2]]`, `[null]`, `["x"]`, `{"d":"f16","s":[2],"v":[1]}`,
		`{"d":"f8","s":[],"v":[1]}`, `{"d":"i32","s":[1],"v":[1.5]}`} {
		require.Error(t, json.Unmarshal([]byte(bad), new(Array)), bad)
	}
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"x": [[1, 2.5]]}`), 0o644))
	var g struct{ X Array }
	Golden(t, path, &g)
	require.Equal(t, []float64{1, 2.5}, g.X.Floats)
	require.Len(t, record(t, func(t testing.TB) { Golden(t, path+".none", &g) }), 1)
	require.NoError(t, os.WriteFile(path, []byte(`{"x": [[1, 2.5`), 0o644))
	require.Len(t, record(t, func(t testing.TB) { Golden(t, path, &g) }), 1)
}
