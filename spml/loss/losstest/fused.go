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

// Fused compares the fused form of a loss with the composed one, by default, in both forms and in the given settings:
// loss and gradients of
// every logit type, at the edges, with and without autograd.
func Fused(t *testing.T, name string, more ...Setting) {
	e, err := loss.Lookup(name)
	require.NoError(t, err)
	require.NotNil(t, e.Fused, "%s has no fused form", name)
	settings := append(
		[]Setting{
			{Name: "default"},
			{Name: "paper", Options: loss.Options{Form: "paper"}},
			{Name: "code", Options: loss.Options{Form: "code"}},
		},
		more...)
	for _, r := range []loss.Reduction{loss.Sum, loss.BatchMean} {
		settings = append(settings, Setting{Name: string(r), Options: loss.Options{Reduction: r, LogEps: 1e-4}})
	}
	for _, s := range settings {
		t.Run(s.Name, func(t *testing.T) {
			s.Options.Impl = loss.Composed
			composed, err := e.Make("coco", s.Set, s.Options)
			require.NoError(t, err)
			s.Options.Impl = loss.Fused
			fused, err := e.Make("coco", s.Set, s.Options)
			require.NoError(t, err)
			t.Run("Equal", func(t *testing.T) { equal(t, e, composed, fused) })
			t.Run("Gradient", func(t *testing.T) { differences(t, e, composed, fused) })
			t.Run("Extreme", func(t *testing.T) { extreme(t, e, fused) })
			t.Run("NaN", func(t *testing.T) { propagatesNaN(t, e, fused, 9, torch.Float32, torch.Float64) })
			if testing.Short() || s.Options.Reduction != "" { // what depends on the kernels
				return
			}
			t.Run("Edges", func(t *testing.T) { edges(t, e, fused) })
			t.Run("Layout", func(t *testing.T) { layout(t, e, fused) })
			t.Run("Half", func(t *testing.T) { half(t, e, fused) })
			t.Run("Rows", func(t *testing.T) { rows(t, e, fused) })
			t.Run("Refused", func(t *testing.T) { refused(t, e, fused) })
		})
	}
}

// Tolerances of one number against the composed form in float64, on the same logits.
func tolerance(d torch.DType, want float64) float64 {
	switch d {
	case torch.Float64:
		return 1e-12 + 1e-12*math.Abs(want)
	case torch.Float32:
		return 1e-6 + 2e-5*math.Abs(want)
	}
	return 2e-3 + 2e-2*math.Abs(want)
}

func equal(t *testing.T, e *loss.Entry, composed, fused loss.Loss) {
	seed := uint64(100)
	for _, d := range []torch.DType{torch.Float64, torch.Float32, torch.BFloat16, torch.Float16} {
		for _, o := range []Observed{SinglePositive, AllUnknown, AllPositive, Mixed} {
			for _, shape := range [][2]int{{1, 1}, {3, 5}, {2, 613}} {
				seed++
				if testing.Short() && (d == torch.Float64 || o != Mixed || shape[0] == 1) {
					continue
				}
				b, leaves, names := Batch(e, Shape{B: shape[0], C: shape[1], DType: d, Seed: seed, Scale: 4, Observed: o})
				where := fmt.Sprintf("%v %v %v", d, o, shape)
				// The oracle: the composed form in float64, on the rounded logits.
				var exact []*torch.Tensor
				for _, x := range leaves {
					exact = append(exact, x.Detach().ToDType(torch.Float64).Clone().SetRequiresGrad(true))
				}
				want, wantG := value(t, composed, replace(b, names, exact), exact)
				check := func(got float64, gotG [][]float64) {
					loose := d // the loss itself is in float32 for half logits
					if d != torch.Float64 {
						loose = torch.Float32
					}
					require.InDelta(t, want, got, tolerance(loose, want), where)
					for i := range gotG {
						require.Len(t, gotG[i], len(wantG[i]))
						for k, w := range wantG[i] {
							if !(math.Abs(w-gotG[i][k]) <= tolerance(d, w)) { // require alone takes longer than the loss
								require.InDelta(t, w, gotG[i][k], tolerance(d, w), "%s: gradient of %s at %d", where, names[i], k)
							}
						}
					}
				}
				got, gotG := value(t, fused, b, leaves)
				check(got, gotG)
				if names[0] != "logits" {
					continue
				}
				require.Equal(t, d, leaves[0].Grad().DType())
				v, g, err := loss.ValueGrad(fused, b)
				require.NoError(t, err)
				require.False(t, v.RequiresGrad() || g.RequiresGrad())
				check(v.Item(), [][]float64{torch.ToSlice[float64](g.ToDType(torch.Float64).Contiguous())})
				v, g, err = loss.ValueGrad(composed, b)
				require.NoError(t, err)
				check(v.Item(), [][]float64{torch.ToSlice[float64](g.ToDType(torch.Float64).Contiguous())})
			}
		}
	}
}

// differences compares the fused gradient in float64 with central differences. Those are of the composed value, because only it can hold the
// factors that have no gradient at the batch's values.
func differences(t *testing.T, e *loss.Entry, composed, fused loss.Loss) {
	const h = 1e-5
	for _, o := range []Observed{SinglePositive, Mixed} {
		b, leaves, names := Batch(e, Shape{B: 3, C: 4, DType: torch.Float64, Seed: 7, Observed: o})
		_, got := value(t, fused, b, leaves)
		f := function(composed, b, leaves, names)
		for i, leaf := range leaves {
			if got[i] == nil {
				continue
			}
			at, shape := torch.ToSlice[float64](leaf.Detach().Contiguous()), leaf.Shape()
			for k := range at {
				side := func(step float64) float64 {
					x := append([]float64(nil), at...)
					x[k] += step
					in := append([]*torch.Tensor(nil), leaves...)
					in[i] = torch.FromSlice(x, shape...)
					return f(in).Item()
				}
				want := (side(h) - side(-h)) / (2 * h)
				require.InDelta(t, want, got[i][k], 1e-8+1e-5*math.Abs(want), "%v: %s at %d", o, names[i], k)
			}
		}
	}
}

// refused requires an error where the saved gradient would be wrong.
func refused(t *testing.T, e *loss.Entry, l loss.Loss) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		b, leaves, _ := Batch(e, Shape{B: 2, C: 3, DType: torch.Float64})
		v, err := l.Value(b)
		require.NoError(t, err)
		err = torch.Try(func() { torch.Grad([]*torch.Tensor{v}, leaves[:1], torch.CreateGraph) })
		require.ErrorContains(t, err, "impl=composed")
		v.Backward(torch.RetainGraph)
		once := leaves[0].Grad().Clone()
		v.Backward()
		require.InDeltaSlice(t, torch.ToSlice[float64](once.MulScalar(2)), torch.ToSlice[float64](leaves[0].Grad()), 1e-12)
		err = torch.Try(func() { v.Backward() })
		require.ErrorContains(t, err, "second time")

		b.Frozen = &b
		_, err = l.Value(b)
		require.ErrorContains(t, err, "composed")
	})
}
