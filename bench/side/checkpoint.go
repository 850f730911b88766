package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Cases of bench/peers/train.py: a ResNet-50 of 1,000 classes (98 MiB) to a file as a checkpoint's tensors are written, with the hash of what is there, and back into the model.
func init() {
	cases["checkpoint_save"] = func(string) (func(int) error, error) {
		m, path, err := saved()
		if err != nil {
			return nil, err
		}
		return repeat(func() error { return save(m, path) }), nil
	}
	cases["checkpoint_load"] = func(string) (func(int) error, error) {
		m, path, err := saved()
		if err != nil {
			return nil, err
		}
		return repeat(func() error {
			sd, _, err := nn.LoadSafetensors(path)
			if err == nil {
				defer sd.Free()
				_, err = nn.LoadStateDict(m, sd, true)
			}
			return err
		}), nil
	}
}

func repeat(f func() error) func(int) error {
	return func(n int) error {
		for ; n > 0; n-- {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

func saved() (backbone.Model, string, error) {
	dir, err := os.MkdirTemp("", "side-")
	if err != nil {
		return nil, "", err
	}
	m, err := backbone.New("resnet50", 1000)
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, "state.safetensors")
	return m, path, save(m, path)
}

func save(m backbone.Model, path string) error {
	_, err := nn.SaveSafetensorsSum(path, nn.StateDictOf(m), nil)
	return err
}

// firstStep is a process from its start to its first step: on photos with MobileNetV2, or on features.
func firstStep(what, data string) error {
	c := config.Config{
		Data:   config.Data{Path: filepath.Join(data, "data", "miml")},
		Method: config.Method{ID: "an"},
		Model:  config.Model{Weights: filepath.Join(data, "data", "weights", "mobilenet_v2.safetensors")},
		Optim:  config.Optim{BatchSize: 16},
		Run:    config.Run{MaxSteps: 1, Threads: 1},
	}
	if what == "features" {
		c.Model.Weights, c.Model.Mode, c.Model.Features = "", config.Frozen, config.Paths{
			filepath.Join(data, "data", "features", "miml_mobilenetv2.npy"),
		}
	}
	if err := torch.SetNumThreads(1); err != nil {
		return err
	}
	_, err := train.Run(context.Background(), c, train.RunOptions{})
	var stopped *train.StoppedError
	if !errors.As(err, &stopped) || stopped.Step != 1 {
		return fmt.Errorf("the run did not stop after its first step: %w", err)
	}
	return nil
}
