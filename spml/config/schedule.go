package config

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
)

// Schedule is the length of a run, the learning rate over it, and what ends it early.
type Schedule struct {
	Epochs int `yaml:"epochs" range:"0 100000"`
	// Name is the learning rate over the run.
	Name         string  `yaml:"schedule"`
	WarmupEpochs float64 `yaml:"warmup_epochs,omitempty" range:"0 100000"`
	FreezeEpochs int     `yaml:"freeze_epochs,omitempty" range:"0 100000"`
	PctStart     float64 `yaml:"pct_start,omitempty" range:"0 1"`
	Power        float64 `yaml:"power,omitempty" range:"0 100"`
	Gamma        float64 `yaml:"gamma,omitempty" range:"0 1"`
	StepEpochs   int     `yaml:"step_epochs,omitempty" range:"0 100000"`
	Patience     int     `yaml:"patience,omitempty" range:"0 100000"`
	MaxDrop      float64 `yaml:"max_drop,omitempty" range:"0 1e6"`
}

func (s *Schedule) resolve(c *Config, m *method.Method) error {
	def(&s.Name, "constant")
	names := []string{"constant", "cosine", "onecycle", "linear", "polynomial", "step", "exponential"}
	if err := oneOf("schedule", s.Name, names...); err != nil {
		return err
	}
	switch s.Name {
	case "onecycle":
		def(&s.PctStart, 0.3)
	case "polynomial":
		def(&s.Power, 2)
	case "step":
		def(&s.Gamma, 0.1)
		def(&s.StepEpochs, max(s.Epochs/3, 1))
	case "exponential":
		def(&s.Gamma, 0.9)
	}
	err := within(
		limit{"warmup_epochs", s.WarmupEpochs, float64(s.Epochs)},
		limit{"freeze_epochs", float64(s.FreezeEpochs), float64(s.Epochs - 1)},
		limit{"pct_start", s.PctStart, 1},
		limit{"power", s.Power, 100},
		limit{"gamma", s.Gamma, 1},
		limit{"step_epochs", float64(s.StepEpochs), 0},
		limit{"patience", float64(s.Patience), 0},
		limit{"max_drop", s.MaxDrop, 0},
	)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		name, of string
		set      bool
	}{
		{"pct_start", "onecycle", s.PctStart != 0}, {"power", "polynomial", s.Power != 0},
		{"gamma", "step, exponential", s.Gamma != 0}, {"step_epochs", "step", s.StepEpochs != 0},
	} {
		if x.set && !slices.Contains(strings.Split(x.of, ", "), s.Name) {
			return wrong("%s is of --schedule %s, not of %s", x.name, x.of, s.Name)
		}
	}
	if s.FreezeEpochs > 0 && c.Model.Mode == Frozen {
		return wrong("freeze_epochs is for fine-tuning; --frozen trains the head alone anyway")
	}
	if m.Loss.Estimator == "apl" {
		v, err := c.LossValues()
		if err != nil {
			return wrong("%v", strings.TrimPrefix(err.Error(), "loss: "))
		}
		if warm := int(v["warmup"]); warm >= s.Epochs {
			usual := m.Loss.Defaults(c.Method.DataSet)["warmup"]
			share := max(int(math.Round(usual*float64(s.Epochs)/10)), 1) // the papers train 10 epochs
			way := fmt.Sprintf("train longer, or take the papers' share of 10 epochs, --param warmup=%d", share)
			if share >= s.Epochs {
				way = "train 2 epochs or more, with --param warmup=1"
			}
			return wrong("%s makes its labels after %d epochs (its parameter warmup), and this run has %d: %s", m.ID, warm,
				s.Epochs, way)
		}
	}
	if s.FreezeEpochs >= s.Epochs {
		return wrong("freeze_epochs is %d of %d epochs: nothing would train the backbone", s.FreezeEpochs, s.Epochs)
	}
	return nil
}

// Lengthens says why a run with more epochs would not have begun as the run of these resolved settings did, "" where it
// would.
func (c Config) Lengthens(epochs int) string {
	switch s := c.Schedule; s.Name {
	case "cosine", "onecycle", "linear", "polynomial":
		return fmt.Sprintf("its learning rate follows --schedule %s over the whole run", s.Name)
	case "step":
		if third := max(s.Epochs/3, 1); s.StepEpochs == third && third != max(epochs/3, 1) {
			return "its learning rate falls at each third of the run"
		}
	}
	if c.Stages.Count == 2 && c.Model.Init == "" {
		return "its first stage is as long as the second"
	}
	e := c.Method.of().Loss
	if e.Estimator == "apl" {
		return fmt.Sprintf("%s labels a share of the images after each epoch, by the number of epochs", c.Method.ID)
	}
	for _, p := range e.Params {
		if _, set := c.Method.Params[p.Name]; p.Name == "epochs" && !set &&
			loss.Values(c.Method.Params)["schedule"] != loss.PointsLearned {
			return fmt.Sprintf("%s moves its parameters over all epochs", c.Method.ID)
		}
	}
	return ""
}
