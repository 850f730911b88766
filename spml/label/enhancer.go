package label

import (
	"fmt"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// Enhancer is the tabular label enhancement: it takes the encoder's step after each of the classifier's.
type Enhancer struct {
	None
	net    *SMILE
	loss   loss.Loss
	opt    *optim.Adam
	logits *torch.Tensor // the encoder's for the batch
}

// NewEnhancer makes the enhancement of features [n, D] that do not change, with the released code's 3 neighbours and
// temperature 1. encoder is the loss smile-encoder, lr its learning rate, g draws the initial values.
func NewEnhancer(features *torch.Tensor, classes int, encoder loss.Loss, lr float64, g *torch.Generator) (*Enhancer, error) {
	if features == nil {
		return nil, fmt.Errorf("label: label enhancement needs features that do not change")
	}
	const neighbours, temperature = 3, 1
	net, err := NewSMILE(features, classes, neighbours, temperature, g)
	if err != nil {
		return nil, err
	}
	return &Enhancer{net: net, loss: encoder, opt: optim.NewAdam(net.Parameters(), optim.LR(lr))}, nil
}

// Fill gives a batch its enhanced labels.
func (s *Enhancer) Fill(at *Step) (err error) {
	if s.logits, err = s.net.Encode(at.Places); err != nil {
		return err
	}
	at.Batch.Soft, err = s.net.Enhanced(s.logits)
	return err
}

// After takes the encoder's step.
func (s *Enhancer) After(at *Step) error {
	r, err := s.net.Reconstruct(at.Places, s.logits)
	if err != nil {
		return err
	}
	v, err := s.loss.Value(loss.Batch{Logits: s.logits, Observed: at.Batch.Observed, Reconstruction: r})
	if err != nil {
		return err
	}
	s.opt.ZeroGrad()
	v.Backward()
	s.opt.Step()
	return nil
}

// State holds the networks and their optimiser.
func (s *Enhancer) State() State {
	st := s.net.State()
	o := s.opt.StateDict()
	out := State{Tensors: map[string]*torch.Tensor{}}
	for k, t := range st.Tensors {
		out.Tensors["net."+k] = t
	}
	for k, t := range o.Tensors {
		out.Tensors["opt."+k] = t
	}
	return out
}

// LoadState restores them.
func (s *Enhancer) LoadState(st State) error {
	all := nn.StateDict(st.Tensors)
	net, o := map[string]*torch.Tensor{}, s.opt.StateDict()
	o.Tensors = map[string]*torch.Tensor{}
	for _, k := range all.Keys() {
		switch {
		case len(k) > 4 && k[:4] == "net.":
			net[k[4:]] = all[k]
		case len(k) > 4 && k[:4] == "opt.":
			o.Tensors[k[4:]] = all[k]
		}
	}
	if err := s.net.LoadState(State{Tensors: net}); err != nil {
		return err
	}
	return s.opt.LoadStateDict(o)
}
