package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/train"
)

func TestLoss(t *testing.T) {
	losstest.Run(t, "ensemble", losstest.Setting{Name: "λ 0.5", Set: loss.Values{"lambda": 0.5}})
}

// The method trains, its checkpoints hold its state, a run that is stopped ends in the same bits, and its model has its
// threshold.
func TestResume(t *testing.T) {
	c := config.Config{
		Data:     config.Data{Path: "shapes", Options: config.DataOptions{Train: 48, Val: 16, Test: 16}, ImageSize: 32},
		Method:   config.Method{ID: "ensemble", StrongView: "crop"},
		Optim:    config.Optim{BatchSize: 16},
		Schedule: config.Schedule{Epochs: 2},
		Run:      config.Run{Threads: 1, Device: "cpu"},
	}
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	must(t, func() error { _, err := train.Run(context.Background(), c, train.RunOptions{}); return err })
	want := newest(t, c.Run.Dir)

	c.Run.Dir, c.Run.MaxSteps = filepath.Join(t.TempDir(), "cut"), 4
	_, err := train.Run(context.Background(), c, train.RunOptions{})
	var stopped *train.StoppedError
	if !errors.As(err, &stopped) {
		t.Fatalf("the run was not stopped: %v", err)
	}
	must(t, func() error {
		_, err := train.Resume(context.Background(), c.Run.Dir, nil, train.RunOptions{})
		return err
	})
	got := newest(t, c.Run.Dir)
	if !bytes.Equal(want, got) {
		t.Error("weights, optimiser or state differ from those of a run that was not stopped")
	}
	if !bytes.Contains(want, []byte(`"estimator.scores"`)) {
		t.Error("the checkpoint lacks the method's state")
	}
	config, err := model.ReadConfig(c.Run.Dir)
	if err != nil || config.Threshold != 0.4 {
		t.Errorf("threshold %v, %v; want 0.4", config.Threshold, err)
	}
}

func must(t *testing.T, f func() error) {
	t.Helper()
	if err := f(); err != nil {
		t.Fatal(err)
	}
}

// newest are the tensors of a run's newest checkpoint.
func newest(t *testing.T, run string) []byte {
	t.Helper()
	name, err := os.ReadFile(filepath.Join(run, "checkpoints", "latest"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(run, "checkpoints", strings.TrimSpace(string(name)), "state.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
