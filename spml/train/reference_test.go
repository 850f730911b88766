package train

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/network"
)

func testSession(t *testing.T, c config.Config, ds *data.Dataset, ev Events) *session {
	s, err := newSession(c, ds, ev)
	require.NoError(t, err)
	return s
}

// TestFeatures extracts features from photos and compares them with the stored ones.
func TestFeatures(t *testing.T) {
	const photos = 64
	c, err := config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "miml")},
		Method: config.Method{ID: "an"},
		Model:  config.Model{Weights: testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors"), Mode: config.Frozen},
		Run:    config.Run{Seed: 1200},
	}.Resolve()
	require.NoError(t, err)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	stored, err := npy.Read(testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"))
	require.NoError(t, err)
	want, err := stored.Float32()
	require.NoError(t, err)
	require.NoError(t, compute.Guard(func() error {
		n, err := network.New(testSession(t, c, ds, Events{}).net)
		require.NoError(t, err)
		defer n.Close()
		rows := make([]int, photos)
		for i := range rows {
			rows[i] = i * (ds.N() / photos)
		}
		got, at, err := n.Features(context.Background(), rows)
		require.NoError(t, err)
		require.Equal(t, rows, at)
		dim := n.Model.FeatureDim()
		worst := 0.0
		for i, r := range rows {
			for k := range dim {
				g, w := float64(got[i*dim+k]), float64(want[r*dim+k])
				worst = max(worst, math.Abs(g-w)/(1+math.Abs(w)))
			}
		}
		require.Less(t, worst, 1e-4)
		return nil
	}))
}

// TestHeadDraws compares the first draws of the recipe with the numbers that reference_runs.md prints.
func TestHeadDraws(t *testing.T) {
	g := random.New(1200)
	var w, b []float64
	require.NoError(t, compute.Guard(func() error {
		weight, bias := drawHead(g, 5, 1280)
		w, b = first(weight), first(bias)
		return nil
	}))
	require.InDeltaSlice(t, []float64{0.00346332, 0.02584715, 0.00970802}, w[:3], 5e-9)
	require.InDeltaSlice(t, []float64{-0.00072221, -0.02478273}, b[:2], 5e-9)
	require.Equal(t, []int{867, 182, 472, 247, 287, 461}, g.Permutation(1000)[:6])
}

// TestFoldedBatchNormIsFrozen: the converted MobileNetV2 has its statistics folded in, so fine-tuning must not use live
// ones.
func TestFoldedBatchNormIsFrozen(t *testing.T) {
	c, err := config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "miml")},
		Method: config.Method{ID: "an"},
		Model:  config.Model{Weights: testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors")},
		Run:    config.Run{Seed: 1200},
	}.Resolve()
	require.NoError(t, err)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	require.NoError(t, compute.Guard(func() error {
		var notes []string
		f, err := newFineTune(testSession(t, c, ds, Events{Note: func(s string) { notes = append(notes, s) }}))
		require.NoError(t, err)
		defer f.close()
		require.Len(t, notes, 2)
		require.Contains(t, notes[1], "stays in evaluation mode")
		return nil
	}))
}
