package network

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/torch/nn"
)

// A saved model predicts at the threshold its method is measured at.
func TestThresholdOfMethods(t *testing.T) {
	ds, err := shapes.New(1, 4, 0, 0)
	require.NoError(t, err)
	defer ds.Close()
	for id, want := range map[string]float64{"em": 0.75, "em-apl": 0.75, "an": 0.5, "role": 0.5} {
		m, err := method.Lookup(id)
		require.NoError(t, err)
		o := Options{Config: config.Config{Method: config.Method{ID: id}}, Method: m, Data: ds}
		require.Equal(t, want, o.saved(4).Threshold, id)
	}
}

// Weights whose statistics are folded in are told from those that live statistics fit.
func TestFoldedBatchNorm(t *testing.T) {
	m, _, err := backbone.NewFromFile("mobilenet_v2", testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors"), 5)
	require.NoError(t, err)
	require.True(t, foldedBatchNorm(m))
	for _, l := range nn.Modules(m) {
		if bn, ok := l.(*nn.BatchNorm2d); ok {
			bn.RunningVar.MulScalar_(0.5)
		}
	}
	require.False(t, foldedBatchNorm(m))
	require.False(t, foldedBatchNorm(&struct{}{}), "no batch normalisation")
}

// Extracted features, read again, are those that the network computes, by image name.
func TestFeatureFiles(t *testing.T) {
	c, err := config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "miml"), ImageSize: 32},
		Method: config.Method{ID: "an"},
		Model: config.Model{
			Backbone: "mobilenet_v2", Weights: testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors"),
		},
		Run: config.Run{Threads: 1},
	}.Ready()
	require.NoError(t, err)
	whole, err := c.Data.Open()
	require.NoError(t, err)
	defer whole.Close()
	ds, err := whole.Subset([]int{0, 500, 900})
	require.NoError(t, err)
	o, err := Prepare(c, ds, progress.Events{})
	require.NoError(t, err)
	n, err := New(o)
	require.NoError(t, err)
	defer n.Close()
	want, rows, err := n.Features(context.Background(), []int{2, 0})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "f.npy")
	require.NoError(t, writeFeatures(path, ds, rows, n.Model.FeatureDim(), want))

	x, at, err := ReadFeatures(config.Paths{path}, ds)
	require.NoError(t, err)
	require.Equal(t, []int{1, -1, 0}, at)
	require.Equal(t, []int{2, n.Model.FeatureDim()}, x.Shape())
	s := &Stored{Features: x, At: at}
	with, places := s.Places([]int{1, 2, 0})
	require.Equal(t, []int{2, 0}, with)
	require.Equal(t, []int64{0, 1}, places)

	_, _, err = ReadFeatures(config.Paths{path}, whole)
	require.NoError(t, err)
	_, _, err = ReadFeatures(config.Paths{filepath.Join(t.TempDir(), "none.npy")}, ds)
	require.ErrorContains(t, err, "none.npy")
}
