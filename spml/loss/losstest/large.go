package losstest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Large computes the loss of that name for 4096 × 5000 float32 logits, which are 16 rows over and over. A loss is a mean over rows, so that
// value and gradients must be those of the 16 rows: sums that lose digits or overflow an index would not give them.
func Large(t *testing.T, name string, s Setting) {
	t.Helper()
	const rows, times, classes = 16, 256, 5000
	e, err := loss.Lookup(name)
	require.NoError(t, err)
	l, err := e.Make("coco", s.Set, s.Options)
	require.NoError(t, err)
	small, leaves, names := Batch(e, Shape{B: rows, C: classes, DType: torch.Float32, Seed: 17, Map: 1})
	want, wantG := value(t, l, small, leaves)
	torch.Scope(func(*torch.Arena) {
		repeat := func(x *torch.Tensor) *torch.Tensor {
			if x == nil || x.Dim() < 1 {
				return x
			}
			by := make([]int, x.Dim())
			for i := range by {
				by[i] = 1
				if i < 2 && x.Size(i) == rows { // the graphs of a batch are [B, B]
					by[i] = times
				}
			}
			return x.Detach().Repeat(by...)
		}
		b := small
		for _, f := range []**torch.Tensor{&b.Observed, &b.Full, &b.Pseudo, &b.Labels, &b.Negative, &b.Average, &b.Heat,
			&b.Group} {
			*f = repeat(*f)
		}
		if b.Reconstruction != nil {
			r := *b.Reconstruction
			r.X, r.A = repeat(r.X), repeat(r.A)
			b.Reconstruction = &r
		}
		many := make([]*torch.Tensor, len(leaves))
		for i, x := range leaves {
			many[i] = x.Detach()
			if n := names[i]; n != "features" && n != "θ" && n != "θ'" {
				many[i] = repeat(x)
			}
			many[i] = many[i].SetRequiresGrad(true)
		}
		v, err := l.Value(replace(b, names, many))
		require.NoError(t, err)
		require.InDelta(t, want, v.Item(), 2e-5*(1+math.Abs(want)))
		v.Backward()
		for i, x := range many {
			g := x.Grad()
			if g == nil {
				require.Empty(t, wantG[i], names[i])
				continue
			}
			for d := range min(2, g.Dim()) {
				if g.Size(d) == rows*times {
					shape := append([]int{}, g.Shape()[:d]...)
					shape = append(append(shape, times, rows), g.Shape()[d+1:]...)
					g = g.Reshape(shape...).SumDim([]int{d}, false)
				}
			}
			got := torch.ToSlice[float32](g.ToDType(torch.Float32).Contiguous())
			top := 0.0
			for _, x := range wantG[i] {
				top = max(top, math.Abs(x))
			}
			require.Len(t, got, len(wantG[i]), names[i])
			for k, x := range got {
				if !(math.Abs(float64(x)-wantG[i][k]) <= 1e-4*top) {
					require.Fail(t, "gradient", "%s at %d: %v, want %v", names[i], k, x, wantG[i][k])
				}
			}
		}
	})
}
