package config

import (
	"fmt"
)

// Optim is the optimiser and its step.
type Optim struct {
	Name      string  `yaml:"optimizer"`
	BatchSize int     `yaml:"batch_size" range:"0 1048576"`
	LR        float64 `yaml:"lr" range:"0 1e30"` // of the backbone, and of the head unless HeadLR is set
	HeadLR    float64 `yaml:"head_lr" range:"0 1e30"`

	WeightDecay float64 `yaml:"weight_decay,omitempty" range:"0 1e6"`
	Momentum    float64 `yaml:"momentum,omitempty" range:"0 1"`
	ClipNorm    float64 `yaml:"clip_norm,omitempty" range:"0 1e12"`
	EMA         float64 `yaml:"ema,omitempty" range:"0 1"`
	EMABest     bool    `yaml:"ema_best,omitempty"`
	// MicroBatch are images per forward pass; the step stays that of the whole batch.
	MicroBatch int `yaml:"micro_batch,omitempty" range:"0 1048576"`
	// InBackward steps each parameter as soon as its gradient is there, so that all gradients never lie in memory at once
	// (optim.InBackward).
	InBackward bool `yaml:"optimizer_in_backward,omitempty"`
}

func (o *Optim) resolve(c *Config) error {
	def(&o.Name, "adam")
	if err := oneOf("optimizer", o.Name, "adam", "adamw", "adamax", "sgd"); err != nil {
		return err
	}
	if o.Name != "sgd" && o.Momentum != 0 {
		return wrong("momentum is for --optimizer sgd")
	}
	if o.EMABest && o.EMA == 0 {
		return wrong("ema_best compares the weights with their average; set ema too, for instance 0.9997")
	}
	if o.MicroBatch >= o.BatchSize {
		o.MicroBatch = 0
	}
	return within(
		limit{"weight_decay", o.WeightDecay, 0}, limit{"momentum", o.Momentum, 1}, limit{"clip_norm", o.ClipNorm, 0},
		limit{"ema", o.EMA, 0.9999999}, limit{"micro_batch", float64(o.MicroBatch), 0},
	)
}

// limit is a number of a setting that is 0 or more, and at most max where that is not 0.
type limit struct {
	name   string
	v, max float64
}

func within(limits ...limit) error {
	for _, x := range limits {
		if !(x.v >= 0) || x.max > 0 && x.v > x.max {
			most := ""
			if x.max > 0 {
				most = fmt.Sprintf(", at most %v", x.max)
			}
			return wrong("%s is %v, want 0 or more%s", x.name, x.v, most)
		}
	}
	return nil
}
