package nn

import "github.com/gospml/gospml/torch"

// AveragedModel is a running average of a model's parameters over training (torch.optim.swa_utils.AveragedModel). Its keys are
// n_averaged and those of the model after "module.".
type AveragedModel[M any] struct {
	NAveraged *torch.Tensor `torch:",buffer"` // int64 []: updates so far
	Module    M             // the average, a copy of the model

	// UseBuffers averages the model's buffers too (running statistics); else each Update copies them.
	UseBuffers bool

	decay float64 // of EMA; negative = every update counts the same
}

// NewEMA makes the exponential moving average ema ← decay·ema + (1-decay)·θ of a copy of m; the first Update copies.
func NewEMA[M any](m M, decay float64) *AveragedModel[M] {
	if !(decay >= 0 && decay <= 1) {
		refuse("nn.NewEMA", "the decay must be between 0 and 1, not %v", decay)
	}
	return averaged(m, decay)
}

// NewSWA makes the mean of all updates (stochastic weight averaging; Izmailov et al. 2018, arXiv:1803.05407).
func NewSWA[M any](m M) *AveragedModel[M] { return averaged(m, -1) }

func averaged[M any](m M, decay float64) *AveragedModel[M] {
	return &AveragedModel[M]{NAveraged: torch.Zeros(torch.S(), torch.Int64), Module: Copy(m), decay: decay}
}

// Update takes the model's present values into the average. m has the structure of the model that the average began with.
func (a *AveragedModel[M]) Update(m M) {
	const op = "nn.AveragedModel"
	var mine, theirs, buffers, current []*torch.Tensor
	split := func(m any, trained, other *[]*torch.Tensor) {
		for _, t := range NamedParameters(m) {
			*trained = append(*trained, t)
		}
		for _, t := range NamedBuffers(m) {
			if a.UseBuffers {
				*trained = append(*trained, t)
			} else {
				*other = append(*other, t)
			}
		}
	}
	split(a.Module, &mine, &buffers)
	split(m, &theirs, &current)
	if len(mine) != len(theirs) || len(buffers) != len(current) {
		refuse(op, "the model has %d tensors, the average %d", len(theirs)+len(current), len(mine)+len(buffers))
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			n := a.NAveraged.ItemInt()
			switch {
			case n == 0:
				copyAll(mine, theirs)
			case a.decay >= 0:
				blend(mine, theirs, a.decay, func(avg, x *torch.Tensor) *torch.Tensor {
					return avg.MulScalar(a.decay).Add(x.MulScalar(1 - a.decay))
				})
			default:
				k := float64(n + 1)
				blend(mine, theirs, 1-1/k, func(avg, x *torch.Tensor) *torch.Tensor { return avg.Add(x.Sub(avg).DivScalar(k)) })
			}
			copyAll(buffers, current)
			a.NAveraged.AddScalar_(1)
		})
	})
}

func copyAll(to, from []*torch.Tensor) {
	for i := range to {
		to[i].Copy_(from[i])
	}
}

// blend moves floating point tensors by 1-keep toward the model in one call for each type; others, counters as a rule, by
// the formula, whose result is cut to an integer.
func blend(mine, theirs []*torch.Tensor, keep float64, other func(avg, x *torch.Tensor) *torch.Tensor) {
	type lists struct{ mine, theirs []*torch.Tensor }
	kinds := map[torch.DType]*lists{}
	for i, t := range mine {
		d := t.DType()
		if !d.IsFloat() {
			t.Copy_(other(t, theirs[i]))
			continue
		}
		if kinds[d] == nil {
			kinds[d] = &lists{}
		}
		kinds[d].mine, kinds[d].theirs = append(kinds[d].mine, t), append(kinds[d].theirs, theirs[i])
	}
	for _, l := range kinds {
		torch.ForeachLerp_(l.mine, l.theirs, 1-keep)
	}
}

// Shadow is the exponential moving average shadow ← decay·shadow + (1-decay)·θ of tensors by name, beside a model
// that trains: it begins with a copy of their values and can change places with them. NewEMA makes a second model
// instead.
type Shadow struct {
	decay          float64
	model, average StateDict
}

// NewShadow begins with the floating-point tensors of a model as they are: its parameters, and the running statistics
// of its norms.
func NewShadow(model StateDict, decay float64) *Shadow {
	if !(decay >= 0 && decay <= 1) {
		refuse("nn.NewShadow", "the decay must be between 0 and 1, not %v", decay)
	}
	s := &Shadow{decay: decay, model: StateDict{}, average: StateDict{}}
	torch.NoGrad(func() {
		for k, t := range model {
			if t.DType().IsFloat() {
				s.model[k], s.average[k] = t, t.Detach().Clone()
			}
		}
	})
	return s
}

// Update takes the model's present values into the average.
func (s *Shadow) Update() {
	torch.NoGrad(func() { blend(s.average.Tensors(), s.model.Tensors(), s.decay, nil) })
}

// Swap puts the average into the model and the model's values into the average, or back.
func (s *Shadow) Swap() {
	torch.NoGrad(func() {
		torch.Scope(func(*torch.Arena) {
			for k, m := range s.model {
				a := s.average[k]
				keep := m.Detach().Clone()
				m.Detach().Copy_(a)
				a.Copy_(keep)
			}
		})
	})
}

// StateDict is the average under the model's keys: its own tensors, not copies.
func (s *Shadow) StateDict() StateDict { return s.average }
