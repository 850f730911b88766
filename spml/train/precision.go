package train

import (
	"fmt"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
)

// cardNotes say what a run on a card does without.
func (s *session) cardNotes() {
	if s.device.Type != torch.DeviceCUDA {
		return
	}
	if err := oplib.CUDA(); err != nil {
		s.ev.Say(fmt.Sprintf("losses are composed of libtorch's operators: %v", err))
	}
}

// onCPU says whether the run computes on the CPU.
func (s *session) onCPU() bool { return s.device.Type == torch.DeviceCPU }

// to brings a tensor to the run's device and frees the one that it had, which nobody else may hold.
func (s *session) to(t *torch.Tensor) *torch.Tensor { return compute.To(t, s.device) }

// newScaler gives a run its loss scale, nil where its precision needs none.
func newScaler(c config.Config, d torch.Device) *amp.GradScaler {
	if c.Run.Precision != config.FP16 {
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
		t.ev.Say(fmt.Sprintf("fp16: a gradient overflowed at step %d with the loss times %v: the step "+
			"is left out and the factor falls, now and wherever that happens again", t.p.Step+1, scale))
	}
}
