package train

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
)

// Every entry is counted once, and validation's groups are those that scoring the saved model gives.
func TestEpochScores(t *testing.T) {
	c := small(folder(t, 60), "em")
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	res, err := Run(t.Context(), c, RunOptions{})
	require.NoError(t, err)
	scores, err := rundir.ReadEpochScores(c.Run.Dir)
	require.NoError(t, err)
	require.Len(t, scores, 2)
	const images, classes = 36, 12
	for i, e := range scores {
		require.Equal(t, i+1, e.Epoch)
		require.Equal(t, images, e.Train.Images)
		require.Equal(t, images, e.Train.Positive.Entries, "one observed positive an image")
		require.Equal(t, images*classes, e.Train.Positive.Entries+e.Train.Hidden.Entries+e.Train.Absent.Entries)
		require.Nil(t, e.Train.Pseudo, "em takes no label for a positive")
		n := 0
		for _, k := range e.Train.Absent.Histogram {
			n += k
		}
		require.Equal(t, e.Train.Absent.Entries, n)
		// Jensen: the loss of the mean is at most the mean of the losses.
		p := e.Train.Positive
		require.GreaterOrEqual(t, p.LogLoss/images, -math.Log(p.Probability/images)-1e-9)
	}
	ds, sc, err := evaluate.Score(t.Context(), c.Run.Dir, data.Val, Events{})
	require.NoError(t, err)
	observed := ds.Gather(ds.Observed, sc.Rows)
	want, err := metric.Separate(sc.Values, ds.Gather(ds.Labels, sc.Rows), observed, metric.ScoreBins)
	require.NoError(t, err)
	got := scores[res.Best.Epoch-1].Val
	require.Equal(t, want.Positives, got.Hidden.Histogram)
	require.Equal(t, want.Negatives, got.Absent.Histogram)
	require.InDelta(t, want.W1, *got.W1, 1e-12)

	// A line that was cut off is no line; one that is damaged is an error with its place.
	path := filepath.Join(c.Run.Dir, "scores.jsonl")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b[:len(b)-9], 0o644))
	scores, err = rundir.ReadEpochScores(c.Run.Dir)
	require.NoError(t, err)
	require.Len(t, scores, 1)
	require.NoError(t, os.WriteFile(path, append([]byte("{]\n"), b...), 0o644))
	_, err = rundir.ReadEpochScores(c.Run.Dir)
	require.ErrorContains(t, err, "scores.jsonl, line 1")
}

// Pseudo-positives are those that the labels' own record counts.
func TestPseudoScores(t *testing.T) {
	c := labelled12(folder(t, 60), "vlpl")
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	res, err := Run(t.Context(), c, RunOptions{})
	require.NoError(t, err)
	scores, err := rundir.ReadEpochScores(c.Run.Dir)
	require.NoError(t, err)
	for i, e := range res.Epochs {
		require.NotZero(t, e.Pseudo.PseudoQuality.Pseudo)
		require.Equal(t, e.Pseudo.PseudoQuality.Pseudo, scores[i].Train.Pseudo.Entries)
		require.Equal(t, e.Pseudo.Correct, scores[i].Train.Correct)
	}
}

// Methods that raise labels, or take confident scores for labels, count them.
func TestRaisedScores(t *testing.T) {
	dir := folder(t, 60)
	for method, params := range map[string]map[string]float64{"role": nil, "plc": {"delta": 0.5}, "splc": {"tau": 0.3, "change_epoch": 0}, "ll-cp": {"delta_rel": 0.3}} {
		c := small(dir, method)
		c.Method.Params, c.Schedule.Epochs, c.Run.Dir = params, 3, filepath.Join(
			t.TempDir(),
			"run",
		) // labels that a step raises are used an epoch later
		_, err := Run(t.Context(), c, RunOptions{})
		require.NoError(t, err, method)
		scores, err := rundir.ReadEpochScores(c.Run.Dir)
		require.NoError(t, err)
		last := scores[len(scores)-1].Train
		require.NotNil(t, last.Pseudo, method)
		require.LessOrEqual(t, last.Correct, last.Pseudo.Entries)
		require.Less(t, last.Pseudo.Entries, 36*11+1)
	}
}
