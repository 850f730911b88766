package reference

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/train"
)

// chance is the mAP of drawn scores on the scenes.
const chance = 24.6

// TestMethodsWithoutReference trains those methods of the registry that have no reference run: they must learn the
// scenes.
func TestMethodsWithoutReference(t *testing.T) {
	for _, m := range []struct {
		id     string
		atMost int // epochs
		mAP    float64
	}{
		{"bce-ls", 3, 85}, {"en-cl", 3, 85}, {"en-scl", 3, 85}, {"crisp", 3, 80}, {"l48", 3, 85},
		// Their steps are held to the released programs' (TestMIMESteps, TestSMILEImageSteps, TestSMILESteps): here only
		// the saved head is looked at.
		{"mime", 1, chance}, {"smile", 1, chance}, {"smile-classifier", 1, chance},
	} {
		t.Run(m.id, func(t *testing.T) {
			c := mimlConfig(t, m.id, 1200)
			c.Schedule.Epochs, c.Run.Dir = m.atMost, filepath.Join(t.TempDir(), "run")
			res, err := train.Run(context.Background(), c, train.RunOptions{})
			require.NoError(t, err)
			require.Greater(t, res.Best.TestMAP, m.mAP)
			again, err := evaluate.Run(context.Background(), c.Run.Dir, evaluate.Options{Part: 2}, train.Events{})
			require.NoError(t, err)
			require.InDelta(t, res.Best.TestMAP, again.MAP, 1e-6, "the saved head scores as the best epoch did")
		})
	}
}

// TestEnSclOnFeaturesIsEnCl: one position a map makes the spatial form that of the scores; the map's average is kept in 8 bits.
func TestEnSclOnFeaturesIsEnCl(t *testing.T) {
	var loss [2]float64
	for i, id := range []string{"en-cl", "en-scl"} {
		c := mimlConfig(t, id, 1)
		c.Schedule.Epochs = 2
		res, err := train.Run(context.Background(), c, train.RunOptions{})
		require.NoError(t, err)
		loss[i] = res.Epochs[1].Loss
	}
	require.InEpsilon(t, loss[0], loss[1], 5e-3)
}

func TestPseudoLabelsFromFile(t *testing.T) {
	dir := t.TempDir()
	c := mimlConfig(t, "vlpl", 1200)
	c.Schedule.Epochs = 3
	_, err := train.Run(context.Background(), c, train.RunOptions{})
	require.ErrorContains(t, err, "--pseudo-labels")

	c.Data.Seed = new(uint32)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	// Pseudo-labels that are the full labels make vlpl learn nearly as full labels do.
	truth := make([]int8, len(ds.Labels))
	for i, y := range ds.Labels {
		truth[i] = 2*y - 1
	}
	c.Data.Seed = nil
	c.Pseudo.File = filepath.Join(dir, "pseudo.npy")
	write := func(v []int8) {
		a, err := npy.New([]int64{int64(ds.N()), int64(ds.C())}, v)
		require.NoError(t, err)
		require.NoError(t, npy.Write(c.Pseudo.File, a))
	}
	write(truth)
	c.Method.Params = map[string]float64{"gamma_neg": 1, "beta_pos": 1}
	for _, id := range []string{"vlpl", "gpr"} {
		c.Method.ID = id
		if id == "gpr" {
			c.Method.Params = nil
		}
		res, err := train.Run(context.Background(), c, train.RunOptions{})
		require.NoError(t, err)
		require.Greater(t, res.Best.TestMAP, 88.0, id)
	}
	truth[7] = 3
	write(truth)
	_, err = train.Run(context.Background(), c, train.RunOptions{})
	require.ErrorContains(t, err, "row 1, class 2 is 3")
}

// TestConsistencyOfTwoViews trains plc with the features of a second view.
func TestConsistencyOfTwoViews(t *testing.T) {
	c := mimlConfig(t, "plc", 1200)
	c.Schedule.Epochs = 3
	_, err := train.Run(context.Background(), c, train.RunOptions{})
	require.ErrorContains(t, err, "--strong-features")
	c.Model.StrongFeatures = config.Paths{testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy")}
	res, err := train.Run(context.Background(), c, train.RunOptions{})
	require.NoError(t, err)
	require.Greater(t, res.Best.TestMAP, 85.0)
}

// TestEveryMethodIsAccountedFor: a method is trained by the reference runs, by one of the tests above, or refused with a reason.
func TestEveryMethodIsAccountedFor(t *testing.T) {
	trained := []string{"bce-ls", "en-cl", "en-scl", "mime", "smile", "smile-classifier", "vlpl", "gpr", "plc", "lac",
		"ignore", "crisp", "l48"}
	for _, m := range referenceMethods {
		trained = append(trained, m.id)
	}
	for _, e := range loss.Entries() {
		if method.Of(e).Lacks() == "" {
			require.Contains(t, trained, e.ID)
			continue
		}
		require.Equal(t, "smile-encoder", e.ID)
		_, err := config.Config{Data: config.Data{Path: "x"}, Method: config.Method{ID: e.ID}}.Resolve()
		require.ErrorContains(t, err, e.ID+" needs ")
	}
	for i, id := range trained {
		require.False(t, slices.Contains(trained[:i], id))
	}
}
