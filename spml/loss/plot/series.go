package plot

import (
	"fmt"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Series is one curve: loss and gradient of an entry with these labels, over the logits Z.
type Series struct {
	Name       string
	Z          []float64
	Loss, Grad []float64
}

// state is what a label is and what is known of it.
type state struct {
	name              string
	y, t, pseudo      float64
	labels, soft      float64
	estimate          float64 // logit
	negative, average float64
	epoch             int
	selected          bool
}

const classes = 20 // of VOC: weights and counts depend on their number

// Curves computes a loss for every kind of label it tells apart. An image of 20 equal logits and labels is taken, so that terms of
// the whole batch show too; the gradient is the loss's derivative by the common logit.
func Curves(e *loss.Entry, dataSet string, set loss.Values, o loss.Options) ([]Series, error) {
	v, err := e.Resolve(dataSet, set)
	if err != nil {
		return nil, err
	}
	var all []Series
	for _, s := range states(e, v) {
		with := loss.Values{}
		for name, x := range set {
			with[name] = x
		}
		if _, err := e.Param("semantics"); err == nil {
			with["k"] = 0
			if s.selected {
				with["k"] = classes
			}
		}
		l, err := e.Make(dataSet, with, o)
		if err != nil {
			return nil, err
		}
		c := Series{Name: s.name}
		for i := -24; i <= 24; i++ {
			z := float64(i) / 4
			x, g, err := at(e, l, s, z)
			if err != nil {
				return nil, err
			}
			c.Z, c.Loss, c.Grad = append(c.Z, z), append(c.Loss, x), append(c.Grad, g)
		}
		all = append(all, c)
	}
	return all, nil
}

// states are the kinds of label that an entry tells apart.
func states(e *loss.Entry, v loss.Values) []state {
	known := state{name: "y = 1", y: 1, t: 1, labels: 1, soft: 0.9, estimate: 3, average: 0.7, epoch: 2}
	unknown := state{name: "y = 0", soft: 0.3, estimate: -1, average: 0.3, negative: 1, epoch: 2}
	with := func(name string, f func(s *state)) state {
		s := unknown
		s.name = name
		f(&s)
		return s
	}
	n := e.Needs
	switch last := int(v["epochs"]); {
	case n&loss.Full != 0 && n&loss.Observed == 0:
		known.name, unknown.name = "t = 1", "t = 0"
		return []state{known, unknown}
	case n&loss.Full != 0:
		return []state{known, with("y = 0, t = 0", func(*state) {}), with("y = 0, t = 1", func(s *state) { s.t = 1 })}
	case n&loss.PseudoLabels != 0:
		known.epoch = max(last/2, 1)
		unknown.epoch = known.epoch
		return []state{known, with("ℓ = 1", func(s *state) { s.pseudo = 1 }), with("ℓ = 0", func(*state) {}), with("ℓ = -1", func(s *state) { s.pseudo = -1 })}
	case n&loss.SoftNegatives != 0:
		known.name = "Y = 1"
		return []state{known, with("Y = 0", func(*state) {}), with("Y = -0.1", func(s *state) { s.labels = -0.1 })}
	case n&loss.Estimates != 0:
		return []state{known, with("y = 0, θ = 0.73", func(s *state) { s.estimate = 1 }), with("y = 0, θ = 0.05", func(s *state) { s.estimate = -3 })}
	case n&loss.NegativeMask != 0:
		return []state{known, with("ẑ = 1", func(*state) {}), with("ẑ = 0", func(s *state) { s.negative = 0 })}
	case n&loss.GroupScores != 0:
		return []state{known, with("y = 0", func(*state) {}), with("y = -1", func(s *state) { s.y = -1 })}
	case n&loss.Priors != 0:
		return []state{known, with("y = 0", func(*state) {}), with("y = 0, warm-up", func(s *state) { s.epoch = 1 })}
	case n&loss.SoftLabels != 0:
		return []state{known, with("y = 0, d = 0.7", func(s *state) { s.soft = 0.7 }), with("y = 0, d = 0.1", func(s *state) { s.soft = 0.1 })}
	case last > 0:
		s := []state{known}
		for _, epoch := range []int{1, (last + 1) / 2, last} {
			s = append(s, with(fmt.Sprintf("y = 0, epoch %d", epoch), func(s *state) { s.epoch = epoch }))
		}
		return s
	}
	if _, err := e.Param("semantics"); err == nil {
		return []state{known, unknown, with("y = 0, selected", func(s *state) { s.selected = true })}
	}
	if n&loss.Epoch != 0 {
		return []state{known, with("y = 0, epoch 1", func(s *state) { s.epoch = 1 }), with("y = 0, epoch 2", func(*state) {})}
	}
	return []state{known, unknown}
}

func at(e *loss.Entry, l loss.Loss, s state, z float64) (value, grad float64, err error) {
	err = torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			x := torch.Full(torch.S(1, classes), z, torch.Float64).SetRequiresGrad(true)
			full := func(v float64) *torch.Tensor { return torch.Full(torch.S(1, classes), v, torch.Float64) }
			latent := func(v float64) *torch.Tensor { return full(v).Unsqueeze(2) }
			one := torch.Ones(torch.S(1, 1), torch.Float64)
			b := loss.Batch{
				Logits: x, Observed: full(s.y), Full: full(s.t), Pseudo: full(s.pseudo), Labels: full(s.labels), Estimate: full(s.estimate),
				Negative: full(s.negative), Average: full(s.average), Strong: x, Soft: full(s.soft), Epoch: s.epoch,
				Group: full(-1), Prior: torch.Full(torch.S(classes), 0.3, torch.Float64),
				Mean: latent(0), Std: latent(1), Alpha: full(1), Beta: full(1), Parameters: []*torch.Tensor{one},
				Contrast:       &loss.Contrast{Features: torch.Ones(torch.S(1, 2, 1), torch.Float64), Labels: torch.FromSlice([]int64{1}, 1)},
				Reconstruction: &loss.Reconstruction{X: one, XRec: one, YRec: full(0.5), A: one, ARec: one},
			}
			if e.Needs&loss.ScoreMaps != 0 {
				b.Logits, b.Maps, b.Heat = nil, x.Reshape(1, classes, 1, 1), full(s.average).Reshape(1, classes, 1, 1)
			}
			var v *torch.Tensor
			if v, err = l.Value(b); err != nil {
				return
			}
			v.Backward()
			value, grad = v.Item(), x.Grad().Sum().Item()
		})
	})
	return value, grad, err
}
