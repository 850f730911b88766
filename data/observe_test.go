package data

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/testroot"
)

// TestObserve compares every model with numpy's draws.
func TestObserve(t *testing.T) {
	b, err := os.ReadFile(testroot.Testdata("data", "observations.json"))
	require.NoError(t, err)
	var cases []struct {
		Model                string
		Positives, Negatives int
		Share                float64
		Seed                 uint32
		Labels, Observed     [][]int8
	}
	require.NoError(t, json.Unmarshal(b, &cases))
	require.Len(t, cases, 21)
	for _, c := range cases {
		n, k := len(c.Labels), len(c.Labels[0])
		d := &Dataset{Name: "golden", Classes: make([]string, k), Images: make([]string, n), Split: make([]Split, n), Labels: slices.Concat(c.Labels...)}
		o := Observation{Model: c.Model, Positives: c.Positives, Negatives: c.Negatives, Share: c.Share, Seed: c.Seed}
		s, err := d.Observe(o)
		require.NoError(t, err)
		require.Equal(t, slices.Concat(c.Observed...), s.Observed, "%+v", o)
		if c.Positives == 1 && c.Negatives == 0 && c.Model == "uniform" {
			single, err := random.SinglePositive(d.Labels, k, c.Seed)
			require.NoError(t, err)
			require.Equal(t, single, s.Observed)
		}
		// A test part has a generator of its own: its rows get the first draws again.
		both := &Dataset{Name: "both", Classes: d.Classes, Images: make([]string, 2*n), Split: slices.Concat(d.Split, slices.Repeat([]Split{Test}, n)), Labels: slices.Concat(d.Labels, d.Labels)}
		s, err = both.Observe(o)
		require.NoError(t, err)
		if c.Model != "frequency" {
			require.Equal(t, s.Observed[:n*k], s.Observed[n*k:])
		}
		o.AllRows = true
		all, err := both.Observe(o)
		require.NoError(t, err)
		require.Equal(t, s.Observed[:n*k], all.Observed[:n*k])
		if k > 1 && !(c.Positives == -1 && c.Negatives == 0) {
			require.NotEqual(t, s.Observed[n*k:], all.Observed[n*k:])
		}
	}
	_, err = (&Dataset{Name: "none"}).Observe(Observation{})
	require.ErrorContains(t, err, "no full labels")
}

func TestResplit(t *testing.T) {
	d := sampleSet(t, 100, nil)
	s, err := d.Resplit(0.2, 0.25, 5, false)
	require.NoError(t, err)
	require.Equal(t, []int{60, 15, 25}, []int{len(s.Rows(Train)), len(s.Rows(Val)), len(s.Rows(Test))})
	keep, test, err := random.Split(100, 0.25, 5)
	require.NoError(t, err)
	require.Equal(t, test, s.Rows(Test))
	_, val, err := random.Split(75, 0.2, 5)
	require.NoError(t, err)
	for i, v := range val {
		require.Equal(t, keep[v], s.Rows(Val)[i])
	}
	kept, err := d.Resplit(0.5, 0.9, 5, true)
	require.NoError(t, err)
	require.Equal(t, d.Rows(Test), kept.Rows(Test))
	_, err = d.Resplit(1, 0, 5, false)
	require.ErrorContains(t, err, "no row would be left")
}
