package train

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
)

// Choices of the settings that name one.
var (
	optimizers = []string{"adam", "adamw", "adamax", "sgd"}
	forms      = []string{"", "paper", "code"}
	expected   = []string{"", "published", "validation"}
	schedules  = []string{"constant", "cosine", "onecycle", "linear", "polynomial", "step", "exponential"}
	precisions = []string{FP32, BF16, FP16}
	valLabels  = []string{"full", "single"}
)

// resolveTraining fills in and checks what belongs to the step, the stop rules and the checkpoints.
func (c *Config) resolveTraining(e *loss.Entry) error {
	fail := func(format string, a ...any) error { return &ConfigError{Msg: fmt.Sprintf(format, a...)} }
	def(&c.Optimizer, "adam")
	def(&c.Schedule, "constant")
	if _, _, err := compute.Check(c.Device); err != nil {
		return err
	}
	if c.Device == DeviceAuto {
		c.Device = "" // the same
	}
	def(&c.Precision, c.defaultPrecision())
	def(&c.ValLabels, "full")
	def(&c.KeepLast, 2)
	if c.Schedule == "onecycle" {
		def(&c.PctStart, 0.3)
	}
	switch c.Schedule {
	case "polynomial":
		def(&c.Power, 2)
	case "step":
		def(&c.Gamma, 0.1)
		def(&c.StepEpochs, max(c.Epochs/3, 1))
	case "exponential":
		def(&c.Gamma, 0.9)
	}
	if latent(e) {
		def(&c.LatentDim, 256)
	}
	for _, x := range []struct {
		name, v string
		of      []string
	}{{"optimizer", c.Optimizer, optimizers}, {"schedule", c.Schedule, schedules}, {"precision", c.Precision,
		precisions}, {"val_labels", c.ValLabels, valLabels}, {"form", c.Form, forms}, {"expected_positives", c.Expected,
		expected}} {
		if !slices.Contains(x.of, x.v) {
			return fail("%s %q is none of %s", x.name, x.v, strings.Join(x.of, ", "))
		}
	}
	if c.Precision != FP32 && c.Mode == Frozen {
		return fail("--frozen trains a linear head on float32 features; precision %s is for fine-tuning", c.Precision)
	}
	if c.Optimizer != "sgd" && c.Momentum != 0 {
		return fail("momentum is for --optimizer sgd")
	}
	for _, x := range []struct {
		name   string
		v, max float64
	}{
		{"weight_decay", c.WeightDecay, 0}, {"momentum", c.Momentum, 1}, {"warmup_epochs", c.WarmupEpochs, float64(c.Epochs)}, {"freeze_epochs", float64(c.FreezeEpochs), float64(c.Epochs - 1)},
		{"clip_norm", c.ClipNorm, 0}, {"ema", c.EMA, 0.9999999}, {"pct_start", c.PctStart, 1}, {"power", c.Power, 100}, {"gamma", c.Gamma, 1}, {"step_epochs", float64(c.StepEpochs), 0}, {"micro_batch", float64(c.MicroBatch), 0}, {"patience", float64(c.Patience), 0}, {"max_drop", c.MaxDrop, 0},
		{"keep_last", float64(c.KeepLast), 0}, {"keep_best", float64(c.KeepBest), 0}, {"max_steps", float64(c.MaxSteps), 0}, {"latent_dim", float64(c.LatentDim), 4096},
	} {
		if !(x.v >= 0) || x.max > 0 && x.v > x.max {
			return fail("%s is %v, want 0 or more%s", x.name, x.v, upTo(x.max))
		}
	}
	for _, x := range []struct {
		name, of string
		set      bool
	}{{"pct_start", "onecycle", c.PctStart != 0}, {"power", "polynomial", c.Power != 0}, {"gamma", "step, exponential", c.Gamma != 0}, {"step_epochs", "step", c.StepEpochs != 0}} {
		if x.set && !slices.Contains(strings.Split(x.of, ", "), c.Schedule) {
			return fail("%s is of --schedule %s, not of %s", x.name, x.of, c.Schedule)
		}
	}
	if c.FreezeEpochs > 0 && c.Mode == Frozen {
		return fail("freeze_epochs is for fine-tuning; --frozen trains the head alone anyway")
	}
	if e, err := loss.Lookup(c.Method); err == nil && e.Estimator == "apl" {
		v, err := c.LossValues()
		if err != nil {
			return fail("%v", strings.TrimPrefix(err.Error(), "loss: "))
		}
		if warm := int(v["warmup"]); warm >= c.Epochs {
			share := max(int(math.Round(e.Defaults(c.Preset)["warmup"]*float64(c.Epochs)/10)), 1) // the papers train 10 epochs
			way := fmt.Sprintf("train longer, or take the papers' share of 10 epochs, --param warmup=%d", share)
			if share >= c.Epochs {
				way = "train 2 epochs or more, with --param warmup=1"
			}
			return fail("%s makes its labels after %d epochs (its parameter warmup), and this run has %d: %s", e.ID, warm,
				c.Epochs, way)
		}
	}
	if c.FreezeEpochs >= c.Epochs {
		return fail("freeze_epochs is %d of %d epochs: nothing would train the backbone", c.FreezeEpochs, c.Epochs)
	}
	if c.MicroBatch >= c.BatchSize {
		c.MicroBatch = 0
	}
	if _, _, err := c.saveEvery(); err != nil {
		return err
	}
	return nil
}

func upTo(max float64) string {
	if max == 0 {
		return ""
	}
	return fmt.Sprintf(", at most %v", max)
}

// saveEvery reads SaveEvery: after this time, or after this many steps; both 0 is at the end of epochs only.
func (c *Config) saveEvery() (every time.Duration, steps int, err error) {
	switch s := c.SaveEvery; s {
	case "", saveOff, "epoch":
		return 0, 0, nil
	default:
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			return 0, n, nil
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return 0, 0, &ConfigError{Msg: fmt.Sprintf("save_every %q is none of epoch, off, a time (10m) or a number of steps (500)", s)}
		}
		return d, 0, nil
	}
}

const saveOff = "off"
