package losstest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// Setting is one way of making the loss.
type Setting struct {
	Name    string
	Set     loss.Values
	Options loss.Options
}

// Run tests the composed form of the loss of that name as it is by default, in both forms, and in the given settings.
func Run(t *testing.T, name string, more ...Setting) {
	e, err := loss.Lookup(name)
	require.NoError(t, err)
	settings := append(
		[]Setting{
			{Name: "default"},
			{Name: "paper", Options: loss.Options{Form: "paper"}},
			{Name: "code", Options: loss.Options{Form: "code"}},
		},
		more...)
	for _, s := range settings {
		t.Run(s.Name, func(t *testing.T) {
			s.Options.Impl = loss.Composed
			l, err := e.Make("coco", s.Set, s.Options)
			require.NoError(t, err)
			t.Run("Gradient", func(t *testing.T) { gradient(t, e, l) })
			t.Run("Edges", func(t *testing.T) { edges(t, e, l) })
			t.Run("Extreme", func(t *testing.T) { extreme(t, e, l) })
			t.Run("NaN", func(t *testing.T) { propagatesNaN(t, e, l, 3, torch.Float64) })
			t.Run("Layout", func(t *testing.T) { layout(t, e, l) })
			t.Run("Half", func(t *testing.T) { half(t, e, l) })
			t.Run("Rows", func(t *testing.T) { rows(t, e, l) })
		})
	}
}

// function is the loss of a batch's leaves, with factors that have no gradient held at the batch's values.
func function(l loss.Loss, b loss.Batch, leaves []*torch.Tensor, names []string) func(in []*torch.Tensor) *torch.Tensor {
	still := make([]*torch.Tensor, len(leaves))
	for i, x := range leaves {
		still[i] = x.Detach().Clone()
	}
	frozen := replace(b, names, still)
	if frozen.Logits == nil {
		frozen.Logits = frozen.Maps.MeanDim([]int{2, 3}, false)
	}
	return func(in []*torch.Tensor) *torch.Tensor {
		now := replace(b, names, in)
		now.Frozen = &frozen
		v, err := l.Value(now)
		if err != nil {
			panic(err)
		}
		return v
	}
}

func gradient(t *testing.T, e *loss.Entry, l loss.Loss) {
	for _, o := range []Observed{SinglePositive, Mixed} {
		b, leaves, names := Batch(e, Shape{B: 3, C: 4, DType: torch.Float64, Seed: 7, Observed: o})
		f := function(l, b, leaves, names)
		torchtest.Gradcheck(t, f, leaves, torchtest.Atol(1e-8), torchtest.Rtol(1e-5))
		if o == SinglePositive {
			torchtest.Gradgradcheck(t, f, leaves, torchtest.Atol(1e-7), torchtest.Rtol(1e-4))
		}
	}
}

// value computes loss and gradients and requires them to exist.
func value(t *testing.T, l loss.Loss, b loss.Batch, leaves []*torch.Tensor) (float64, [][]float64) {
	t.Helper()
	v, err := l.Value(b)
	require.NoError(t, err)
	require.Empty(t, v.Shape())
	v.Backward()
	var grads [][]float64
	for _, x := range leaves {
		if x.Grad() == nil {
			grads = append(grads, nil)
			continue
		}
		require.Equal(t, x.Shape(), x.Grad().Shape())
		grads = append(grads, torch.ToSlice[float64](x.Grad().ToDType(torch.Float64).Contiguous()))
	}
	return v.Item(), grads
}

func requireFinite(t *testing.T, v float64, grads [][]float64, names []string) {
	t.Helper()
	require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "loss %v", v)
	for i, g := range grads {
		for k, x := range g {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				require.Fail(t, "no number", "gradient %v of %s at %d", x, names[i], k)
			}
		}
	}
}

func edges(t *testing.T, e *loss.Entry, l loss.Loss) {
	for _, s := range []Shape{{B: 1, C: 1}, {B: 5, C: 1}, {B: 1, C: 7}, {B: 4, C: 6, Observed: AllUnknown}, {B: 4, C: 6, Observed: AllPositive}} {
		for _, d := range []torch.DType{torch.Float64, torch.Float32} {
			s.DType = d
			t.Run(fmt.Sprintf("%dx%d/%v/%v", s.B, s.C, s.Observed, d), func(t *testing.T) {
				b, leaves, names := Batch(e, s)
				v, g := value(t, l, b, leaves)
				requireFinite(t, v, g, names)
			})
		}
	}
	b, leaves, names := Batch(e, Shape{B: 0, C: 4, DType: torch.Float32})
	v, g := value(t, l, b, leaves)
	require.Zero(t, v, "empty batch")
	requireFinite(t, v, g, names)
}

// extreme puts logits of ±1e4 and the like on every kind of label: loss and gradients stay finite.
func extreme(t *testing.T, e *loss.Entry, l loss.Loss) {
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		for _, o := range []Observed{SinglePositive, AllUnknown, AllPositive, Mixed} {
			b, leaves, names := Batch(e, Shape{B: 6, C: 8, DType: d, Seed: 3, Observed: o})
			values := []float64{1e4, -1e4, 120, -120, 89, -89, 30, -30, 17, -17, 0}
			torch.NoGrad(func() {
				for i, n := range names {
					if n == "logits" || n == "maps" || n == "estimate" || n == "strong" {
						x := make([]float64, leaves[i].Numel())
						for k := range x {
							x[k] = values[(k*k+k/5+i)%len(values)]
						}
						leaves[i].Copy_(torch.FromSlice(x, leaves[i].Shape()...))
					}
				}
			})
			v, g := value(t, l, b, leaves)
			requireFinite(t, v, g, names)
		}
	}
}

// propagatesNaN puts NaN at each place of each tensor in turn: the loss and the gradient at that place are NaN.
func propagatesNaN(t *testing.T, e *loss.Entry, l loss.Loss, classes int, types ...torch.DType) {
	for _, d := range types {
		for _, o := range []Observed{SinglePositive, AllUnknown, AllPositive, Mixed} {
			b, leaves, names := Batch(e, Shape{B: 2, C: classes, DType: d, Seed: 5, Observed: o, Map: 1})
			for i, leaf := range leaves {
				if n := names[i]; n != "logits" && n != "maps" && n != "estimate" && n != "strong" {
					continue
				}
				plain := torch.ToSlice[float64](leaf.Detach().ToDType(torch.Float64))
				for k := range plain {
					torch.Scope(func(*torch.Arena) {
						x := append([]float64(nil), plain...)
						x[k] = math.NaN()
						torch.NoGrad(func() { leaf.Copy_(torch.FromSlice(x, leaf.Shape()...)) })
						for _, y := range leaves {
							y.SetGrad(nil)
						}
						v, g := value(t, l, b, leaves)
						require.True(t, math.IsNaN(v), "NaN of %s at %d gives the loss %v (%v, %v labels)", names[i], k, v, d, o)
						require.True(t, math.IsNaN(g[i][k]), "NaN of %s at %d gives the gradient %v (%v, %v labels)", names[i], k, g[i][k], d, o)
						torch.NoGrad(func() { leaf.Copy_(torch.FromSlice(plain, leaf.Shape()...)) })
					})
				}
			}
		}
	}
}

// layout compares strided and expanded inputs with contiguous ones.
func layout(t *testing.T, e *loss.Entry, l loss.Loss) {
	b, leaves, names := Batch(e, Shape{B: 4, C: 5, DType: torch.Float64, Seed: 11})
	want, wantG := value(t, l, b, leaves)
	strided := make([]*torch.Tensor, len(leaves))
	for i, x := range leaves {
		x = x.Detach()
		axes := make([]int, x.Dim())
		for k := range axes {
			axes[k] = len(axes) - 1 - k
		}
		y := x.Permute(axes...).Contiguous().Permute(axes...)
		strided[i] = torch.Stack([]*torch.Tensor{y, y}, 0).Select(0, 1).SetRequiresGrad(true)
	}
	got, gotG := value(t, l, replace(b, names, strided), strided)
	require.InDelta(t, want, got, 1e-12)
	for i := range wantG {
		require.InDeltaSlice(t, wantG[i], gotG[i], 1e-12, names[i])
	}
	if names[0] != "logits" {
		return
	}
	row := leaves[0].Detach().Slice(0, 0, 1, 1)
	full, shown := row.Repeat(4, 1), row.Expand(4, 5)
	b = replace(b, names[:1], []*torch.Tensor{full})
	a, err := l.Value(b)
	require.NoError(t, err)
	c, err := l.Value(replace(b, names[:1], []*torch.Tensor{shown}))
	require.NoError(t, err)
	require.InDelta(t, a.Item(), c.Item(), 1e-12)
}

// rows requires rows of padding to change nothing, whatever they hold.
func rows(t *testing.T, e *loss.Entry, l loss.Loss) {
	if e.Needs&loss.Reconstructions != 0 {
		return
	}
	b, leaves, names := Batch(e, Shape{B: 5, C: 4, DType: torch.Float64, Seed: 17})
	var inner []*torch.Tensor
	padded := b
	padded.Rows = torch.FromSlice([]float32{1, 0, 1, 1, 0}, 5)
	at := torch.FromSlice([]int64{0, 2, 3}, 3)
	for i, x := range leaves {
		if x.Dim() < 2 || x.Size(0) != 5 || names[i] == "features" {
			inner = append(inner, x)
			continue
		}
		torch.NoGrad(func() {
			if names[i] == "logits" || names[i] == "maps" {
				x.Select(0, 1).Fill_(math.NaN())
				x.Select(0, 4).Fill_(math.Inf(1))
			}
		})
		inner = append(inner, x.Detach().IndexSelect(0, at).SetRequiresGrad(true))
	}
	small := replace(b, names, inner)
	for _, f := range []**torch.Tensor{&small.Observed, &small.Full, &small.Pseudo, &small.Labels, &small.Negative,
		&small.Average, &small.Heat, &small.Group} {
		if *f != nil {
			*f = (*f).IndexSelect(0, at)
		}
	}
	want, wantG := value(t, l, small, inner)
	for _, x := range leaves {
		x.SetGrad(nil)
	}
	got, gotG := value(t, l, padded, leaves)
	require.InDelta(t, want, got, 1e-12)
	require.Len(t, gotG, len(wantG))
	if i := 0; names[i] == "logits" {
		g, w := leaves[0].Grad(), inner[0].Grad()
		require.InDeltaSlice(t, torch.ToSlice[float64](w), torch.ToSlice[float64](g.IndexSelect(0, at).Contiguous()), 1e-12)
		require.Zero(t, g.Select(0, 1).Abs().Sum().Item())
		require.Zero(t, g.Select(0, 4).Abs().Sum().Item())
	}
}

// half requires half logits to be computed in float32: the loss of the rounded logits, and gradients of the logits' type.
func half(t *testing.T, e *loss.Entry, l loss.Loss) {
	for _, d := range []torch.DType{torch.BFloat16, torch.Float16} {
		b, leaves, names := Batch(e, Shape{B: 4, C: 5, DType: d, Seed: 13})
		got, grads := value(t, l, b, leaves)
		wide := make([]*torch.Tensor, len(leaves))
		for i, x := range leaves {
			wide[i] = x.Detach().ToDType(torch.Float32).SetRequiresGrad(true)
		}
		want, _ := value(t, l, replace(b, names, wide), wide)
		require.InDelta(t, want, got, 1e-6*(1+math.Abs(want)))
		requireFinite(t, got, grads, names)
		v, err := l.Value(b)
		require.NoError(t, err)
		require.Equal(t, torch.Float32, v.DType())
	}
}
