package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch/nn"
)

// referenceSeed is one run of the papers' code on the MIML photos.
type referenceSeed struct {
	BestEpoch int       `json:"best_epoch"`
	Best      float64   `json:"map_best_epoch"`
	Loss      []float64 `json:"loss_per_epoch"`
	Val       []float64 `json:"val_map_per_epoch"`
	Test      []float64 `json:"map_per_epoch"`
}

func reference(t *testing.T) map[string]map[string]referenceSeed {
	var file struct {
		Linear map[string]struct {
			Exact struct {
				Seeds map[string]referenceSeed `json:"seeds"`
			} `json:"exact"`
		} `json:"linear_miml"`
	}
	b, err := os.ReadFile(testroot.Shared(t, "spec", "reference_runs.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &file))
	out := map[string]map[string]referenceSeed{}
	for method, v := range file.Linear {
		out[method] = v.Exact.Seeds
	}
	return out
}

// TestReferenceRuns trains the linear heads of the reference runs, all methods whose labels need no estimator: the same files,
// draws and recipe, so every epoch must agree (mAP within 0.1, loss within 1e-4 relative).
func TestReferenceRuns(t *testing.T) {
	ref := reference(t)
	for _, m := range []struct {
		name, id string
		seeds    []uint32
		params   map[string]float64
	}{
		{"AN", "an", []uint32{1200, 1, 2, 3, 4}, nil},
		{"EM", "em", []uint32{1200, 1, 2, 3, 4}, nil},
		{"BCE-full", "bce", []uint32{1200, 1, 2, 3, 4}, nil},
		{"IUN", "iun", []uint32{1200}, nil},
		{"WAN", "wan", []uint32{1200}, nil},
		{"DW", "dw", []uint32{1200}, map[string]float64{"neg_weight": 0.1}},
		{"L1R", "l1r", []uint32{1200}, nil},
		{"L2R", "l2r", []uint32{1200}, nil},
		{"EPR", "epr", []uint32{1200}, map[string]float64{"k": 1.2}},
		{"LS", "an-ls", []uint32{1200}, nil},
		{"N-LS", "n-ls", []uint32{1200}, nil},
		{"EntMin", "entmin", []uint32{1200}, nil},
		{"Focal", "focal", []uint32{1200}, nil},
		{"ASL", "asl", []uint32{1200}, nil},
		{"LL-R", "ll-r", []uint32{1200}, nil},
		{"LL-Ct", "ll-ct", []uint32{1200}, nil},
		{"Hill", "hill", []uint32{1200}, nil},
		{"SPLC", "splc", []uint32{1200}, nil},
		{"GR", "gr", []uint32{1200}, nil},
	} {
		for _, seed := range m.seeds {
			t.Run(fmt.Sprint(m.id, "/", seed), func(t *testing.T) {
				want, ok := ref[m.name][fmt.Sprint(seed)]
				require.True(t, ok)
				res, err := Run(context.Background(), Config{
					Data: testroot.Shared(t, "data", "miml"), Features: testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"),
					Mode: Frozen, Method: m.id, Params: m.params, Seed: seed,
				}, Events{})
				require.NoError(t, err)
				require.Len(t, res.Epochs, len(want.Loss))
				for i, e := range res.Epochs {
					require.InEpsilon(t, want.Loss[i], e.Loss, 1e-4, "loss of epoch %d", i+1)
					require.InDelta(t, want.Val[i], e.ValMAP, 0.1, "validation mAP of epoch %d", i+1)
					require.InDelta(t, want.Test[i], e.TestMAP, 0.1, "test mAP of epoch %d", i+1)
				}
				require.Equal(t, want.BestEpoch, res.Best.Epoch)
				require.InDelta(t, want.Best, res.Best.TestMAP, 0.1)
			})
		}
	}
}

// TestFeatures extracts features from photos and compares them with the stored ones.
func TestFeatures(t *testing.T) {
	const photos = 64
	c, err := Config{
		Data: testroot.Shared(t, "data", "miml"), Weights: testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors"),
		Mode: Frozen, Method: "an", Seed: 1200,
	}.Resolve()
	require.NoError(t, err)
	ds, err := Open(c)
	require.NoError(t, err)
	defer ds.Close()
	stored, err := npy.Read(testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"))
	require.NoError(t, err)
	want, err := stored.Float32()
	require.NoError(t, err)
	require.NoError(t, guard(func() error {
		n, err := newNetwork(&session{c: c, ds: ds, random: random.New(1200)})
		require.NoError(t, err)
		defer n.close()
		rows := make([]int, photos)
		for i := range rows {
			rows[i] = i * (ds.N() / photos)
		}
		got, at, err := n.features(context.Background(), rows)
		require.NoError(t, err)
		require.Equal(t, rows, at)
		dim := n.model.FeatureDim()
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
	require.NoError(t, guard(func() error {
		weight, bias := drawHead(g, 5, 1280)
		w, b = first(weight), first(bias)
		return nil
	}))
	require.InDeltaSlice(t, []float64{0.00346332, 0.02584715, 0.00970802}, w[:3], 5e-9)
	require.InDeltaSlice(t, []float64{-0.00072221, -0.02478273}, b[:2], 5e-9)
	require.Equal(t, []int{867, 182, 472, 247, 287, 461}, g.Permutation(1000)[:6])
}

// TestFoldedBatchNormIsFrozen: the converted MobileNetV2 has its statistics folded in, so fine-tuning must not use live ones.
func TestFoldedBatchNormIsFrozen(t *testing.T) {
	c, err := Config{
		Data: testroot.Shared(t, "data", "miml"), Weights: testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors"), Method: "an", Seed: 1200,
	}.Resolve()
	require.NoError(t, err)
	ds, err := Open(c)
	require.NoError(t, err)
	defer ds.Close()
	require.NoError(t, guard(func() error {
		var notes []string
		f, err := newFineTune(&session{c: c, ds: ds, random: random.New(1200), train: ds.Rows(data.Train), ev: Events{Note: func(s string) { notes = append(notes, s) }}})
		require.NoError(t, err)
		defer f.close()
		require.Len(t, notes, 2)
		require.Contains(t, notes[1], "stays in evaluation mode")
		fresh, err := backbone.New("mobilenet_v2", 5)
		require.NoError(t, err)
		require.True(t, foldedBatchNorm(f.model))
		live := fresh.(*backbone.MobileNetV2)
		for _, l := range nn.Modules(live) {
			if bn, ok := l.(*nn.BatchNorm2d); ok {
				bn.RunningVar.MulScalar_(0.5)
			}
		}
		require.False(t, foldedBatchNorm(live))
		return nil
	}))
}
