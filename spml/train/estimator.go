package train

import (
	"context"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
)

// setup is what the method's estimator is made from. features are those of the training rows in use where they do not
// change, else nil.
func (s *session) setup(ctx context.Context, usable []int, features *torch.Tensor) (*method.Setup, error) {
	c := s.c
	m := &method.Setup{
		Context: ctx, Method: s.method, Values: s.values, Options: s.options, Preset: c.Preset, Data: s.ds, Rows: usable, Features: features, Device: s.device,
		PlainAdam: c.Optimizer == "adam" && c.WeightDecay == 0 && c.Schedule != "onecycle" && s.procs == nil && s.onCPU() &&
			c.Precision != FP16,
		Seed: c.Seed, Generator: s.torch, Epochs: c.Epochs, LR: c.HeadLR, Frozen: c.Mode == Frozen, Flip: *c.Flip, QueueSize: c.QueueSize, Init: c.Init, Note: s.ev.note,
	}
	if !s.method.Needs(loss.PseudoLabels) {
		return m, nil
	}
	m.Labels.File = c.PseudoLabels
	if c.Clip == "" {
		return m, nil
	}
	m.Labels.Open = func() (*clip.Model, error) { return c.openClip(s.device) }
	var err error
	if m.Labels.Settings, err = c.labelSettings(); err == nil {
		m.Labels.Settings.Names, err = c.prompts()
	}
	return m, err
}

// group are parameters with a learning rate.
type group struct {
	params []*torch.Tensor
	lr     float64
}
