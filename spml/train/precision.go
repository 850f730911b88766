package train

import (
	"fmt"

	"golang.org/x/sys/cpu"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
)

// Precisions of fine-tuning. Weights, their gradients, losses and estimators are float32 in each; bf16 and fp16 are
// libtorch's autocast, fp16 with a loss scale that follows the gradients (torch/amp).
const (
	FP32 = "fp32"
	BF16 = "bf16"
	FP16 = "fp16"
)

// matrixUnit says whether the processor multiplies bfloat16 matrices in a unit of their own (AMX): there bf16 is
// several times as fast as float32, elsewhere at most twice. Tests replace it.
var matrixUnit = func() bool { return cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 }

// defaultPrecision is bf16 where the processor or the card is made for it, else fp32. A head on features is always
// float32.
func (c *Config) defaultPrecision() string {
	if c.Mode != FineTune {
		return FP32
	}
	switch d, _, err := compute.Choose(c.Device); {
	case err == nil && d.Type == torch.DeviceCUDA && compute.BrainFloat(d), (err != nil || d.Type == torch.DeviceCPU) && matrixUnit():
		return BF16
	}
	return FP32
}

// precisionNote says the precision of a run and what its default rests on.
func (c *Config) precisionNote(device torch.DeviceType) string {
	switch {
	case c.Mode == Frozen:
		return c.Precision
	case device != torch.DeviceCPU && c.Precision != c.defaultPrecision():
		return fmt.Sprintf("%s (as set; this card's default is %s)", c.Precision, c.defaultPrecision())
	case device != torch.DeviceCPU:
		return c.Precision
	case c.Precision != c.defaultPrecision():
		return fmt.Sprintf("%s (as set; this CPU's default is %s)", c.Precision, c.defaultPrecision())
	case matrixUnit():
		return c.Precision + " (CPU with AMX)"
	}
	return c.Precision + " (CPU without AMX)"
}

// computeTypes are the types of autocast by precision.
var computeTypes = map[string]torch.DType{BF16: torch.BFloat16, FP16: torch.Float16}

// cardNotes say what a run on a card does without.
func (s *session) cardNotes() {
	if s.device.Type != torch.DeviceCUDA {
		return
	}
	if err := oplib.CUDA(); err != nil {
		s.ev.note(fmt.Sprintf("losses are composed of libtorch's operators: %v", err))
	}
}

// onCPU says whether the run computes on the CPU.
func (s *session) onCPU() bool { return s.device.Type == torch.DeviceCPU }

// to brings a tensor to the run's device and frees the one that it had, which nobody else may hold.
func (s *session) to(t *torch.Tensor) *torch.Tensor { return compute.To(t, s.device) }

// newScaler gives a run its loss scale, nil where its precision needs none.
func newScaler(c Config, d torch.Device) *amp.GradScaler {
	if c.Precision != FP16 {
		return nil
	}
	return amp.NewGradScaler(amp.Options{Device: d})
}

// scale is fp16's factor of the loss, 0 without one.
func (t *trainer) scale() float64 {
	if t.step.Scaler == nil {
		return 0
	}
	return t.step.Scaler.GetScale()
}

// skipped counts a step that was left out, and says so the first time; scale is the factor with which its gradient
// overflowed.
func (t *trainer) skipped(scale float64) {
	if t.p.Skipped++; t.p.Skipped == 1 {
		t.ev.note(fmt.Sprintf("fp16: a gradient overflowed at step %d with the loss times %v: the step is left out and the factor falls, now and wherever that happens again", t.p.Step+1, scale))
	}
}
