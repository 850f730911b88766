package train

import (
	"context"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
)

// setup is what the method's estimator is made from. features are those of the training rows in use where they do not
// change, else nil.
func (s *session) setup(ctx context.Context, usable []int, features *torch.Tensor) (*method.Setup, error) {
	c := s.c
	m := &method.Setup{
		Context: ctx, Method: s.method, Values: s.values, Options: s.options,
		DataSet: c.Method.DataSet, Data: s.ds, Rows: usable, Features: features, Device: s.device,
		PlainAdam: c.Optim.Name == "adam" && c.Optim.WeightDecay == 0 && c.Schedule.Name != "onecycle" &&
			s.procs == nil && s.onCPU() && c.Run.Precision != config.FP16,
		Seed: c.Run.Seed, Generator: s.torch, Epochs: c.Schedule.Epochs, LR: c.Optim.HeadLR,
		Frozen: c.Model.Mode == config.Frozen, Flip: *c.Data.Flip,
		GroupRate: c.Method.GroupRate, QueueSize: c.Method.QueueSize, Init: c.Model.Init, Note: s.ev.Say,
	}
	if !s.method.Needs(loss.PseudoLabels) {
		return m, nil
	}
	m.Labels.File = c.Pseudo.File
	if c.Pseudo.Clip == "" {
		return m, nil
	}
	m.Labels.Open = func() (*clip.Model, error) { return c.OpenClip(s.device) }
	var err error
	if m.Labels.Settings, err = c.LabelSettings(); err == nil {
		m.Labels.Settings.Names, err = c.Pseudo.Names()
	}
	return m, err
}

// group are parameters with a learning rate.
type group struct {
	params []*torch.Tensor
	lr     float64
}
