package amp

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// GradScaler multiplies the loss so that small float16 gradients do not vanish, takes the factor off before the step, skips
// steps whose gradients are not finite, and follows with the factor (torch.amp.GradScaler; Micikevicius et al. 2018, arXiv:1710.03740).
//
//	scaler.Scale(loss).Backward()
//	scaler.Step(opt)
//	scaler.Update()
//
// To clip gradients call Unscale before. One goroutine at a time uses a scaler.
type GradScaler struct {
	Options

	scale, tracker *torch.Tensor
	seen           map[optim.Optimizer]*seen
}

// seen is what a scaler knows of an optimizer since the last Update.
type seen struct {
	found             bool // a gradient was not finite
	unscaled, stepped bool
}

// Options are the numbers of a scaler; the zero value of a field stands for PyTorch's default.
type Options struct {
	InitScale      float64      // 65536
	GrowthFactor   float64      // 2, after GrowthInterval steps without a skip
	BackoffFactor  float64      // 0.5, after a skip
	GrowthInterval int          // 2000
	Device         torch.Device // where the gradients are; the CPU by default
}

// NewGradScaler starts with InitScale.
func NewGradScaler(o Options) *GradScaler {
	for _, d := range []struct {
		v       *float64
		missing float64
	}{{&o.InitScale, 65536}, {&o.GrowthFactor, 2}, {&o.BackoffFactor, 0.5}} {
		if *d.v == 0 {
			*d.v = d.missing
		}
	}
	if o.GrowthInterval == 0 {
		o.GrowthInterval = 2000
	}
	if o.Device == (torch.Device{}) {
		o.Device = torch.CPU
	}
	if o.GrowthFactor <= 1 || o.BackoffFactor >= 1 || o.InitScale <= 0 {
		refuse("the growth factor %v must be above 1, the backoff factor %v below, the scale %v positive", o.GrowthFactor, o.BackoffFactor, o.InitScale)
	}
	s := &GradScaler{Options: o, seen: map[optim.Optimizer]*seen{}}
	s.scale = torch.Full(torch.S(), o.InitScale, torch.Float32, o.Device)
	s.tracker = torch.Zeros(torch.S(), torch.Int32, o.Device)
	return s
}

func refuse(format string, arguments ...any) {
	panic(&torch.Error{Kind: torch.KindValue, Op: "amp.GradScaler", Msg: fmt.Sprintf(format, arguments...)})
}

// Scale multiplies a loss with the scale.
func (s *GradScaler) Scale(loss *torch.Tensor) *torch.Tensor { return loss.Mul(s.scale) }

// GetScale is the scale of the next loss.
func (s *GradScaler) GetScale() float64 { return s.scale.Item() }

func (s *GradScaler) of(opt optim.Optimizer) *seen {
	if s.seen[opt] == nil {
		s.seen[opt] = &seen{}
	}
	return s.seen[opt]
}

// Unscale divides the gradients of an optimizer's parameters by the scale, in place, and notes whether all are finite. Step
// does it where it was not done.
func (s *GradScaler) Unscale(opt optim.Optimizer) {
	w := s.of(opt)
	switch {
	case w.stepped:
		refuse("Unscale is called after Step; call Update between")
	case w.unscaled:
		refuse("Unscale has been called on this optimizer since the last Update")
	}
	var params []*torch.Tensor
	for _, g := range opt.Groups() {
		params = append(params, g.Params...)
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			inverse := s.scale.ToDType(torch.Float64).Reciprocal().ToDType(torch.Float32)
			found := torch.Zeros(torch.S(), torch.Float32, s.Device)
			type kind struct {
				d  torch.DType
				at torch.Device
			}
			lists := map[kind][]*torch.Tensor{}
			for _, g := range torch.Grads(params) {
				if g == nil {
					continue
				}
				if g.DType() == torch.Float16 {
					refuse("the gradients are float16; keep the parameters in float32, autocast casts them")
				}
				k := kind{g.DType(), g.Device()}
				lists[k] = append(lists[k], g)
			}
			for k, grads := range lists {
				here := found.ToDevice(k.at)
				torch.Call("aten::_amp_foreach_non_finite_check_and_unscale_", grads, here, inverse.ToDevice(k.at))
				if here != found {
					found.Copy_(found.Maximum(here.ToDevice(s.Device)))
				}
			}
			w.found = found.Item() != 0
		})
	})
	w.unscaled = true
}

// Step steps the optimizer unless a gradient was not finite, and says whether it did.
func (s *GradScaler) Step(opt optim.Optimizer) bool {
	w := s.of(opt)
	if w.stepped {
		refuse("Step has been called on this optimizer since the last Update")
	}
	if !w.unscaled {
		s.Unscale(opt)
	}
	w.stepped = true
	if w.found {
		return false
	}
	opt.Step()
	return true
}

// Update lowers the scale after a skipped step, raises it after GrowthInterval steps without one.
func (s *GradScaler) Update() {
	found, any := 0.0, false
	for _, w := range s.seen {
		any = any || w.unscaled
		if w.found {
			found = 1
		}
	}
	if !any {
		refuse("Update needs a Step or Unscale before it")
	}
	torch.Scope(func(*torch.Arena) {
		f := torch.Full(torch.S(), found, torch.Float32, s.Device)
		torch.Call("aten::_amp_update_scale_", s.scale, s.tracker, f, s.GrowthFactor, s.BackoffFactor, s.GrowthInterval)
	})
	s.seen = map[optim.Optimizer]*seen{}
}

// State is what a checkpoint keeps, with PyTorch's names.
type State struct {
	Scale          float64 `json:"scale"`
	GrowthFactor   float64 `json:"growth_factor"`
	BackoffFactor  float64 `json:"backoff_factor"`
	GrowthInterval int     `json:"growth_interval"`
	GrowthTracker  int     `json:"_growth_tracker"`
}

// StateDict is the state after an Update.
func (s *GradScaler) StateDict() State {
	return State{s.scale.Item(), s.GrowthFactor, s.BackoffFactor, s.GrowthInterval, s.tracker.ItemInt()}
}

// LoadStateDict continues where the state was taken.
func (s *GradScaler) LoadStateDict(st State) error {
	if !(st.Scale > 0) || math.IsInf(st.Scale, 0) || st.GrowthFactor <= 1 || st.BackoffFactor >= 1 || st.GrowthInterval < 1 {
		return fmt.Errorf("amp: %+v is no state of a scaler", st)
	}
	s.GrowthFactor, s.BackoffFactor, s.GrowthInterval = st.GrowthFactor, st.BackoffFactor, st.GrowthInterval
	s.scale.Fill_(st.Scale)
	s.tracker.Fill_(st.GrowthTracker)
	return nil
}
