package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// Choices of Run.Device beside cuda:N.
const (
	DeviceAuto = compute.Auto // the graphics card where there is one that can be used, else the CPU
	DeviceCPU  = compute.CPU
	DeviceCUDA = compute.CUDA // the first card, or the one that a launcher gives the process (LOCAL_RANK)
)

// Precisions of fine-tuning (Run.Precision). Weights, their gradients, losses and estimators are float32 in each; bf16
// and fp16 are libtorch's autocast, fp16 with a loss scale that follows the gradients (torch/amp).
const (
	FP32 = "fp32"
	BF16 = "bf16"
	FP16 = "fp16"
)

// Run is where a run is kept and how it computes.
type Run struct {
	Dir       string `yaml:"run,omitempty"`
	Seed      uint32 `yaml:"seed"`
	Device    string `yaml:"device,omitempty"`
	Precision string `yaml:"precision"`
	Threads   int    `yaml:"threads" range:"0 4096"`
	// Deterministic holds for the whole process and stays on (torch.SetDeterministic, torch.SetCuDNNDeterministic).
	Deterministic bool      `yaml:"deterministic,omitempty"`
	SaveEvery     SaveEvery `yaml:"save_every,omitempty"`
	KeepLast      int       `yaml:"keep_last,omitempty" range:"0 100000"`
	KeepBest      int       `yaml:"keep_best,omitempty" range:"0 100000"`
	MaxSteps      int       `yaml:"max_steps,omitempty" range:"0 1000000000000"`
}

// SaveEvery says when checkpoints are written. The zero value is at the end of each epoch, of a run on features at most
// every 30 seconds. Its text is a time (10m), a number of steps (500), epoch or off.
type SaveEvery struct {
	Time  time.Duration // this long after the one before
	Steps int           // after so many steps
	Epoch bool          // at the end of each epoch, however short
	Off   bool          // never
}

// UnmarshalText reads the text form.
func (s *SaveEvery) UnmarshalText(text []byte) error {
	*s = SaveEvery{}
	switch t := string(text); t {
	case "":
	case "off":
		s.Off = true
	case "epoch":
		s.Epoch = true
	default:
		var err error
		if n, e := strconv.Atoi(t); e == nil && n > 0 {
			s.Steps = n
		} else if s.Time, err = time.ParseDuration(t); err != nil || s.Time <= 0 {
			return wrong("save_every %.100q is none of epoch, off, a time (10m) or a number of steps (500)", t)
		}
	}
	return nil
}

// String is the text form.
func (s SaveEvery) String() string {
	switch {
	case s.Off:
		return "off"
	case s.Epoch:
		return "epoch"
	case s.Steps > 0:
		return strconv.Itoa(s.Steps)
	case s.Time > 0: // 10m, not 10m0s
		t := s.Time.String()
		if strings.HasSuffix(t, "m0s") {
			t = strings.TrimSuffix(t, "0s")
		}
		if strings.HasSuffix(t, "h0m") {
			t = strings.TrimSuffix(t, "0m")
		}
		return t
	}
	return ""
}

// MarshalText is String, for files.
func (s SaveEvery) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (r *Run) resolve(c *Config) error {
	if _, _, err := compute.Check(r.Device); err != nil {
		return err
	}
	if r.Device == DeviceAuto {
		r.Device = "" // the same
	}
	def(&r.Precision, c.defaultPrecision())
	def(&r.KeepLast, 2)
	if err := oneOf("precision", r.Precision, FP32, BF16, FP16); err != nil {
		return err
	}
	if r.Precision != FP32 && c.Model.Mode == Frozen {
		return wrong("--frozen trains a linear head on float32 features; precision %s is for fine-tuning", r.Precision)
	}
	if r.SaveEvery.Time < 0 || r.SaveEvery.Steps < 0 {
		return wrong("save_every is %v and %d steps, want more than 0", r.SaveEvery.Time, r.SaveEvery.Steps)
	}
	return within(
		limit{"keep_last", float64(r.KeepLast), 0},
		limit{"keep_best", float64(r.KeepBest), 0},
		limit{"max_steps", float64(r.MaxSteps), 0},
	)
}

// defaultPrecision is bf16 where the processor or the card is made for it, else fp32. A head on features is always
// float32.
func (c *Config) defaultPrecision() string {
	if c.Model.Mode != FineTune {
		return FP32
	}
	switch d, _, err := compute.Choose(c.Run.Device); {
	case err == nil && d.Type == torch.DeviceCUDA && compute.BrainFloat(d),
		(err != nil || d.Type == torch.DeviceCPU) && compute.MatrixUnit():
		return BF16
	}
	return FP32
}

// PrecisionNote says the precision of a run on a kind of device, and what its default rests on.
func (c Config) PrecisionNote(device torch.DeviceType) string {
	p, usual := c.Run.Precision, c.defaultPrecision()
	switch {
	case c.Model.Mode == Frozen:
		return p
	case device != torch.DeviceCPU && p != usual:
		return fmt.Sprintf("%s (as set; this card's default is %s)", p, usual)
	case device != torch.DeviceCPU:
		return p
	case p != usual:
		return fmt.Sprintf("%s (as set; this CPU's default is %s)", p, usual)
	case compute.MatrixUnit():
		return p + " (CPU with AMX)"
	}
	return p + " (CPU without AMX)"
}
