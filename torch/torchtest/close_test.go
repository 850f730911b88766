package torchtest

import (
	"math"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

func TestAllClose(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	x := torch.FromSlice([]float64{1, 2, 3, nan, inf, -inf}, 2, 3)
	require.True(t, AllClose(t, x, x.Clone(), 0, 0))
	require.True(t, AllClose(t, torch.Zeros(torch.S(0, 3)), torch.Zeros(torch.S(0, 3)), 0, 0))
	require.True(t, AllClose(t, torch.Scalar(1.0), torch.Scalar(1.0000001), 1e-6, 0))
	require.True(t, AllClose(t, nil, nil, 0, 0))

	for _, c := range []struct {
		name      string
		got, want *torch.Tensor
		words     string
	}{
		{"worst element", torch.FromSlice([]float64{1, 2.5, 3, nan, inf, -7}, 2, 3), torch.FromSlice([]float64{1, 2, 3, nan, inf, -5}, 2, 3),
			"2 of 6 elements differ by more than 0 + 0.001·|want|; the worst is at [1 2]: got -7, want -5 (|difference| 2)"},
		{"NaN", torch.FromSlice([]float64{nan}), torch.FromSlice([]float64{1}), "got NaN, want 1"},
		{"infinity", torch.FromSlice([]float64{inf}), torch.FromSlice([]float64{-inf}), "got +Inf, want -Inf"},
		{"shape", torch.Zeros(torch.S(2)), torch.Zeros(torch.S(2, 1)), "got float32 [2], want float32 [2 1]"},
		{"dtype", torch.Zeros(torch.S(2)), torch.Zeros(torch.S(2), torch.Float64), "got float32 [2], want float64 [2]"},
		{"integers", torch.FromSlice([]int64{1, 5}), torch.FromSlice([]int64{1, 6}), "1 of 2 elements"},
		{"nil", nil, torch.Zeros(torch.S(2)), "got nil, want float32 [2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok := true
			messages := record(t, func(t testing.TB) { ok = AllClose(t, c.got, c.want, 1e-3, 0) })
			require.False(t, ok)
			require.Len(t, messages, 1)
			require.Contains(t, messages[0], c.words)
		})
	}
	require.Len(t, record(t, func(t testing.TB) { Equal(t, torch.Scalar(1.0), torch.Scalar(math.Nextafter(1, 2))) }), 1)
}
