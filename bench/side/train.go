package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Cases of bench/peers/train.py: steps of the trainer's own loop, from the order of the epoch to the optimiser. A run goes on in a goroutine and is let
// through step by step (on images) or epoch by epoch (on features), so that what is before the first step is not measured.
func init() {
	for _, batch := range []int{16, 1024} {
		cases[fmt.Sprint("probe", batch)] = func(string) (func(int) error, error) { return probe(batch) }
	}
	for _, k := range []struct {
		name, backbone string
		batch          int
	}{{"r50", "resnet50", 8}, {"mnv2", "mobilenet_v2", 16}} {
		for _, precision := range []string{"fp32", "bf16"} {
			cases[k.name+"_"+precision] = func(data string) (func(int) error, error) {
				c := config.Config{
					Data:     config.Data{Path: filepath.Join(data, "data", "miml"), ImageSize: 224},
					Method:   config.Method{ID: "an"},
					Model:    config.Model{Backbone: k.backbone, BatchNorm: config.BatchNormLive},
					Optim:    config.Optim{BatchSize: k.batch, LR: 1e-5},
					Schedule: config.Schedule{Epochs: 1000},
					Run:      config.Run{Precision: precision, Threads: 1},
				}
				return steps(c, 1)
			}
		}
	}
}

const (
	probeRows, probeDim, probeClasses = 4096, 2048, 80
)

// probe trains a linear head on stored features.
func probe(batch int) (func(int) error, error) {
	dir, err := os.MkdirTemp("", "side-")
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, probeRows*probeDim), make([]int8, probeRows*probeClasses)
	for i := range x {
		x[i] = r.Float32()
	}
	for i := range probeRows {
		y[i*probeClasses+r.IntN(probeClasses)] = 1
	}
	file := filepath.Join(dir, "probe.safetensors")
	sd := nn.StateDict{
		"features": torch.FromSlice(x, probeRows, probeDim), "labels": torch.FromSlice(y, probeRows, probeClasses),
		"split": torch.Zeros(torch.S(probeRows), torch.Int64), // all train: no scoring between the epochs
	}
	if err := nn.SaveSafetensors(file, sd, nil); err != nil {
		return nil, err
	}
	c := config.Config{
		Data:     config.Data{Path: file, Options: config.DataOptions{Options: data.Options{NoValidation: true}}},
		Method:   config.Method{ID: "an"},
		Model:    config.Model{Features: config.Paths{config.OwnFeatures}, Mode: config.Frozen},
		Optim:    config.Optim{BatchSize: batch},
		Schedule: config.Schedule{Epochs: 1 << 20},
	}
	return steps(c, probeRows/batch)
}

// steps lets a run go on by so many steps at once; between calls it stands still.
func steps(c config.Config, each int) (func(int) error, error) {
	next, done, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	pause := func() {
		done <- struct{}{}
		<-next
	}
	ev := train.Events{Note: func(s string) { fmt.Fprintln(os.Stderr, s) }}
	if c.Model.Mode == config.Frozen {
		ev.Epoch = func(train.EpochRecord) { pause() }
	} else {
		ev.Step = func(s train.Step) {
			if s.Phase == "train" {
				pause()
			}
		}
	}
	go func() {
		_, err := train.Run(context.Background(), c, train.RunOptions{Events: ev})
		failed <- fmt.Errorf("the run ended: %w", err)
	}()
	wait := func() error {
		select {
		case <-done:
			return nil
		case err := <-failed:
			return err
		}
	}
	if err := wait(); err != nil { // the first is a warm-up
		return nil, err
	}
	return func(n int) error {
		for ; n > 0; n -= each {
			next <- struct{}{}
			if err := wait(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
