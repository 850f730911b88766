package network

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch/nn"
)

// ForTraining makes the network what the settings train: its batch normalisation, frozen stages, checkpointing of
// activations, and the memory layout that trains fastest.
func (n *Network) ForTraining() error {
	c := n.o.Config.Model
	switch c.BatchNorm {
	case config.BatchNormFrozen:
		nn.FreezeBatchNorm(n.Model, true)
	case config.BatchNormConstant:
		nn.ConstantBatchNorm(n.Model)
	case config.BatchNormAuto:
		if c.Weights != "" && c.Head != config.HeadDualCoOp && foldedBatchNorm(n.Model) {
			nn.FreezeBatchNorm(n.Model, true)
			n.o.Events.Say("batch normalisation stays in evaluation mode: the weights have its statistics folded in (running " +
				"mean 0, variance 1), which live statistics would destroy")
		}
	}
	if err := n.saveMemory(); err != nil {
		return err
	}
	nn.ChannelsLast(n.Model)
	return nil
}

// foldedBatchNorm says whether every batch normalisation of the model has the statistics of an identity: mean 0 and
// variance 1, or 1 - eps, as converters write it.
func foldedBatchNorm(m any) bool {
	folded, found := true, false
	for _, layer := range nn.Modules(m) {
		if bn, ok := layer.(*nn.BatchNorm2d); ok {
			found = true
			folded = folded && bn.RunningMean.CountNonzero().ItemInt() == 0 &&
				bn.RunningVar.SubScalar(1).Abs().Max().Item() < 1e-4
		}
	}
	return found && folded
}

// saveMemory freezes stages and turns checkpointing on.
func (n *Network) saveMemory() error {
	body := model.Base(n.Model)
	if n.o.Config.Model.FreezeAt > 0 {
		if err := backbone.FreezeAt(body, n.o.Config.Model.FreezeAt); err != nil {
			return &config.Error{Msg: fmt.Sprintf("freeze_at: %v", strings.TrimPrefix(err.Error(), "backbone: "))}
		}
	}
	switch n.o.Config.Model.GradCheckpointing {
	case config.CheckpointAll:
		r, ok := body.(model.BodyCheckpointer)
		if !ok {
			return &config.Error{
				Msg: "grad_checkpointing all knows the blocks of a ResNet; " + n.o.Config.Model.Backbone + " is none",
			}
		}
		for _, l := range nn.Modules(body) {
			if bn, ok := l.(*nn.BatchNorm2d); ok && !bn.Frozen {
				return &config.Error{
					Msg: "grad_checkpointing all would count every batch twice in the running statistics: set batch_norm frozen " +
						"or constant",
				}
			}
		}
		r.CheckpointBody()
		fallthrough
	case config.CheckpointHead:
		if h, ok := n.Model.(model.HeadCheckpointer); ok {
			h.CheckpointHead()
		}
	}
	return nil
}
