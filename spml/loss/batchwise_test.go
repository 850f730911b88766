package loss_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// The fused forms report the parts that the composed ones do, also for padded batches.
func TestFusedParts(t *testing.T) {
	for _, id := range []string{"epr", "role", "gpr", "plc", "lac", "ll-r", "ll-ct", "ll-cp"} {
		forms := []losstest.Setting{{}, {Options: loss.Options{Form: "paper"}}, {Options: loss.Options{Form: "code"}}}
		for _, set := range append(forms, settings[id]...) {
			for _, padded := range []bool{false, true} {
				e, err := loss.Lookup(id)
				require.NoError(t, err)
				b, _, _ := losstest.Batch(e, losstest.Shape{B: 6, C: 9, DType: torch.Float64, Seed: 5, Observed: losstest.Mixed})
				if padded {
					b.Rows = torch.FromSlice([]int8{1, 1, 0, 1, 0, 1}, 6)
				}
				parts := map[loss.Impl]map[string]*torch.Tensor{}
				for _, impl := range []loss.Impl{loss.Composed, loss.Fused} {
					set.Options.Impl = impl
					l, err := e.Make("voc", set.Set, set.Options)
					require.NoError(t, err)
					got := map[string]*torch.Tensor{}
					b.Report = func(part string, v *torch.Tensor) { got[part] = v }
					_, err = l.Value(b)
					require.NoError(t, err)
					parts[impl] = got
				}
				require.NotEmpty(t, parts[loss.Composed], id)
				require.Len(t, parts[loss.Fused], len(parts[loss.Composed]), id)
				for name, want := range parts[loss.Composed] {
					got := parts[loss.Fused][name]
					require.NotNil(t, got, "%s: %s", id, name)
					require.Equal(t, want.Shape(), got.Shape(), "%s: %s", id, name)
					flat := func(x *torch.Tensor) []float64 {
						return torch.ToSlice[float64](x.ToDType(torch.Float64).Contiguous())
					}
					require.InDeltaSlice(t, flat(want), flat(got), 1e-12, "%s: %s", id, name)
				}
			}
		}
	}
}

// The selection finds exactly the k largest unknown entries at sizes where it samples a threshold, ties by position.
func TestFusedSelection(t *testing.T) {
	for _, c := range []struct {
		rows, classes, k int
		round            bool // many ties
	}{{16, 80, 6, false}, {128, 80, 41, false}, {128, 80, 41, true}, {128, 80, 10000, false}, {128, 80, 10240, true}, {1, 4096, 1, false}, {300, 700, 840, true}, {4, 5, 3, true}} {
		e, err := loss.Lookup("ll-ct")
		require.NoError(t, err)
		b, _, _ := losstest.Batch(e, losstest.Shape{B: c.rows, C: c.classes, DType: torch.Float32, Seed: 9, Observed: losstest.Mixed})
		if c.round {
			b.Logits = b.Logits.Detach().Round().SetRequiresGrad(true)
		}
		for _, semantics := range []float64{loss.Recommended, loss.Reference} {
			marks := map[loss.Impl][]int8{}
			for _, impl := range []loss.Impl{loss.Composed, loss.Fused} {
				l, err := e.Make("", loss.Values{"k": float64(c.k), "semantics": semantics}, loss.Options{Impl: impl})
				require.NoError(t, err)
				b.Report = func(part string, v *torch.Tensor) {
					if part == "modified" {
						marks[impl] = torch.ToSlice[int8](v.ToDType(torch.Int8))
					}
				}
				_, err = l.Value(b)
				require.NoError(t, err)
			}
			require.Equal(t, marks[loss.Composed], marks[loss.Fused], "%v, semantics %v", c, semantics)
		}
	}
}

// Shapes come out of Meta tensors.
func TestBatchwiseMeta(t *testing.T) {
	for _, op := range []string{"epr", "vlpl", "gpr", "role", "plc", "large_loss", "contrast"} {
		require.True(t, torch.Has("spml::"+op+"_fwd"), op)
	}
	z := torch.Zeros(torch.S(3, 4), torch.Float32, torch.Meta)
	y := torch.Zeros(torch.S(3, 4), torch.Int8, torch.Meta)
	c := torch.NewOperator("spml::role_fwd", "").Begin()
	c.Tensor(z)
	c.Tensor(z)
	c.Tensor(y)
	c.Float(1.5)
	v, g, h := c.Three()
	require.Empty(t, v.Shape())
	require.Equal(t, []int{3, 4}, g.Shape())
	require.Equal(t, []int{3, 4}, h.Shape())
}
