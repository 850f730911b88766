package train

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
)

// DualCoOp trains its contexts alone, a stopped run goes on to the same bits, and the saved model, which needs no CLIP file, scores as in training.
func TestDualCoOp(t *testing.T) {
	dir := folder(t, 60)
	c := config.Config{
		Data:     config.Data{Path: dir, ImageSize: 64},
		Method:   config.Method{ID: "dualcoop"},
		Pseudo:   config.Pseudo{Clip: config.BuiltinClip},
		Model:    config.Model{Context: 4},
		Optim:    config.Optim{BatchSize: 12, LR: 1e-4},
		Schedule: config.Schedule{Epochs: 2, WarmupEpochs: 0.5},
		Run:      config.Run{Threads: 1, Seed: 3},
	}
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	res, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	require.Less(t, res.Epochs[1].Loss, res.Epochs[0].Loss)
	want, _ := newestSum(t, c.Run.Dir)
	rep, err := Evaluate(context.Background(), c.Run.Dir, data.Test, Events{})
	require.NoError(t, err)
	require.InDelta(t, res.Best.TestMAP, rep.MAP, 1e-6)

	c.Run.Dir = filepath.Join(t.TempDir(), "cut")
	interrupted(t, c, 2, 5)
	got, _ := newestSum(t, c.Run.Dir)
	require.Equal(t, want, got)
	_, sd, err := load(filepath.Join(c.Run.Dir, checkpoints, func() string {
		n, err := list(filepath.Join(c.Run.Dir, checkpoints))
		require.NoError(t, err)
		return n[0]
	}()))
	require.NoError(t, err)
	defer sd.Free()
	var model []string
	for _, k := range sd.Keys() {
		if len(k) > 6 && k[:6] == "model." {
			model = append(model, k)
		}
	}
	require.Equal(t, []string{"model.ctx_neg", "model.ctx_pos"}, model, "a checkpoint holds what training changes")
}

// CLIP's image tower is a backbone: it trains with its head, and the saved model scores as in training.
func TestClipBackbone(t *testing.T) {
	dir := folder(t, 40)
	c := config.Config{
		Data:     config.Data{Path: dir, ImageSize: 64},
		Method:   config.Method{ID: "an"},
		Model:    config.Model{Backbone: config.BackboneClip, Weights: config.BuiltinClip},
		Optim:    config.Optim{BatchSize: 12},
		Schedule: config.Schedule{Epochs: 1},
		Run:      config.Run{Threads: 1, Dir: filepath.Join(t.TempDir(), "r")},
	}
	res, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	rep, err := Evaluate(context.Background(), c.Run.Dir, data.Test, Events{})
	require.NoError(t, err)
	require.InDelta(t, res.Best.TestMAP, rep.MAP, 1e-6)

	c.Model.Mode, c.Run.Dir = config.Frozen, filepath.Join(t.TempDir(), "frozen")
	_, err = Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
}

func TestClipModelErrors(t *testing.T) {
	dir := folder(t, 30)
	for want, c := range map[string]config.Config{
		"give --clip MODEL": {Method: config.Method{ID: "dualcoop"}},
		"leave --backbone and --weights": {
			Method: config.Method{ID: "dualcoop"},
			Pseudo: config.Pseudo{Clip: config.BuiltinClip},
			Model:  config.Model{Backbone: "resnet50"},
		},
		"leave --frozen out": {
			Method: config.Method{ID: "dualcoop"},
			Pseudo: config.Pseudo{Clip: config.BuiltinClip},
			Model:  config.Model{Mode: config.Frozen},
		},
		"belong to --head dualcoop": {Method: config.Method{ID: "an"}, Model: config.Model{Context: 4}},
		"--backbone clip wants --weights": {
			Method: config.Method{ID: "an"},
			Model:  config.Model{Backbone: config.BackboneClip},
		},
		"smaller than the 32 of a region": {
			Data:   config.Data{ImageSize: 16},
			Method: config.Method{ID: "dualcoop"},
			Pseudo: config.Pseudo{Clip: config.BuiltinClip},
		},
		"stands on a convolutional": {
			Method: config.Method{ID: "an"},
			Model:  config.Model{Backbone: config.BackboneClip, Weights: config.BuiltinClip, Head: config.HeadDecoder},
		},
		"context is 65, want 1 to 64": {
			Method: config.Method{ID: "dualcoop"},
			Pseudo: config.Pseudo{Clip: config.BuiltinClip},
			Model:  config.Model{Context: 65},
		},
	} {
		c.Data.Path = dir
		_, err := Run(context.Background(), c, RunOptions{})
		require.ErrorContains(t, err, want)
	}
}
