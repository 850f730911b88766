package optim_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func param(v ...float32) *torch.Tensor { return torch.FromSlice(v).SetRequiresGrad(true) }

// squareStep takes a step on the sum of the squares of the parameters.
func squareStep(opt optim.Optimizer, ps ...*torch.Tensor) {
	torch.Scope(func(*torch.Arena) {
		opt.ZeroGrad()
		var loss *torch.Tensor
		for _, p := range ps {
			l := p.ToDType(torch.Float64).Square().Sum()
			if loss == nil {
				loss = l
			} else {
				loss = loss.Add(l)
			}
		}
		loss.Backward()
		opt.Step()
	})
}

func TestOptionsAndErrors(t *testing.T) {
	p := param(1, 2)
	for name, f := range map[string]func(){
		"takes no option \"Betas\"":             func() { optim.NewSGD([]*torch.Tensor{p}, optim.Betas(0.9, 0.99)) },
		"takes no option \"Nesterov\"":          func() { optim.NewAdamW([]*torch.Tensor{p}, optim.Nesterov()) },
		"takes no option \"\"":                  func() { optim.NewAdamW([]*torch.Tensor{p}, optim.Option{}) },
		"invalid learning rate: -1":             func() { optim.NewSGD([]*torch.Tensor{p}, optim.LR(-1)) },
		"invalid momentum: -0.5":                func() { optim.NewSGD([]*torch.Tensor{p}, optim.Momentum(-0.5)) },
		"Nesterov momentum requires a momentum": func() { optim.NewSGD([]*torch.Tensor{p}, optim.Nesterov()) },
		"invalid beta parameter at index 1: 1":  func() { optim.NewAdam([]*torch.Tensor{p}, optim.Betas(0.9, 1)) },
		"empty parameter list":                  func() { optim.NewAdam(nil) },
		"parameter 1 of the group [2] appears":  func() { optim.NewAdam([]*torch.Tensor{p, p}) },
		"parameter 0 of the group [2] appears":  func() { optim.NewAdam([]*torch.Tensor{p}).AddGroup([]*torch.Tensor{p}) },
		"only leaf tensors can be optimized":    func() { optim.NewAdam([]*torch.Tensor{p.MulScalar(2)}) },
		"parameter 0 is nil":                    func() { optim.NewAdam([]*torch.Tensor{nil}) },
		"invalid weight decay: -1":              func() { optim.NewAdam([]*torch.Tensor{p}).AddGroup([]*torch.Tensor{param(1)}, optim.WeightDecay(-1)) },
	} {
		err := torch.Try(f)
		require.ErrorContains(t, err, name)
		require.True(t, errors.Is(err, torch.ErrValue), name)
	}
	h := optim.NewAdamW([]*torch.Tensor{p}).Groups()[0].Hyper
	require.Equal(t, optim.Hyper{LR: 1e-3, WeightDecay: 1e-2, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8}, h)
	require.Equal(t, optim.Hyper{LR: 1e-3, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8}, optim.NewAdam([]*torch.Tensor{p}).Groups()[0].Hyper)
	require.Equal(t, optim.Hyper{LR: 1e-3}, optim.NewSGD([]*torch.Tensor{p}).Groups()[0].Hyper)
}

func TestAddGroupInheritsTheConstructorsNumbers(t *testing.T) {
	o := optim.NewAdamW([]*torch.Tensor{param(1)}, optim.LR(0.5), optim.Betas(0.1, 0.2))
	o.AddGroup([]*torch.Tensor{param(1)}, optim.LR(0.25), optim.AMSGrad())
	g := o.Groups()[1]
	require.Equal(t, optim.Hyper{LR: 0.25, WeightDecay: 1e-2, Betas: [2]float64{0.1, 0.2}, Eps: 1e-8, AMSGrad: true}, g.Hyper)
	require.False(t, o.Groups()[0].AMSGrad)
}

// Types may mix in one group; each parameter steps as it would alone.
func TestMixedDTypes(t *testing.T) {
	start := []float32{1, -2, 3}
	alone := map[torch.DType]*torch.Tensor{}
	kinds := []torch.DType{torch.Float32, torch.Float64, torch.BFloat16, torch.Float32}
	fresh := func(d torch.DType) *torch.Tensor {
		return torch.FromSlice(start).ToDType(d).SetRequiresGrad(true)
	}
	for _, d := range kinds {
		p := fresh(d)
		o := optim.NewAdamW([]*torch.Tensor{p}, optim.LR(0.1))
		for range 5 {
			squareStep(o, p)
		}
		alone[d] = p
	}
	var ps []*torch.Tensor
	for _, d := range kinds {
		ps = append(ps, fresh(d))
	}
	o := optim.NewAdamW(ps, optim.LR(0.1))
	for range 5 {
		squareStep(o, ps...)
	}
	for i, d := range kinds {
		require.Equal(t, d, ps[i].DType())
		require.True(t, alone[d].Equal(ps[i]), "%v", d)
		require.False(t, fresh(d).Equal(ps[i]))
	}
}

// A parameter without a gradient keeps its value and its state; one that starts later starts like a new one.
func TestMissingGradients(t *testing.T) {
	for _, mk := range []func([]*torch.Tensor) optim.Optimizer{
		func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.1), optim.Momentum(0.9)) },
		func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdam(p, optim.LR(0.1)) },
	} {
		a, b, c := param(1, 2), param(3), param(5)
		c.SetRequiresGrad(false)
		o := mk([]*torch.Tensor{b, a, c}) // b's gradient is missing before a's is there
		o.Step()                          // nothing has a gradient yet
		require.Empty(t, o.StateDict().Tensors)
		squareStep(o, a)
		squareStep(o, a)
		require.Equal(t, []float32{3}, torch.ToSlice[float32](b))
		require.NotEqual(t, []float32{1, 2}, torch.ToSlice[float32](a))
		squareStep(o, a, b)
		late := torch.ToSlice[float32](b)

		b2 := param(3)
		o2 := mk([]*torch.Tensor{b2})
		squareStep(o2, b2)
		require.Equal(t, torch.ToSlice[float32](b2), late)
		require.NotContains(t, o.StateDict().Tensors, "state.2.step")
		require.Equal(t, []float32{5}, torch.ToSlice[float32](c))
	}
}

// A schedule may switch momentum or AMSGrad on after the first step.
func TestHyperChangesBetweenSteps(t *testing.T) {
	p := param(1, 2)
	o := optim.NewSGD([]*torch.Tensor{p}, optim.LR(0.1))
	squareStep(o, p)
	require.InDelta(t, 0.8, torch.ToSlice[float32](p)[0], 1e-6)
	o.Groups()[0].Momentum = 0.5
	squareStep(o, p) // b = 1.6
	require.InDelta(t, 0.64, torch.ToSlice[float32](p)[0], 1e-6)
	o.Groups()[0].LR = 0.01
	squareStep(o, p) // b = 0.8 + 1.28
	require.InDelta(t, 0.64-0.0208, torch.ToSlice[float32](p)[0], 1e-6)

	q := param(1, 2)
	a := optim.NewAdam([]*torch.Tensor{q})
	squareStep(a, q)
	a.Groups()[0].AMSGrad = true
	squareStep(a, q)
	require.Contains(t, a.StateDict().Tensors, "state.0.max_exp_avg_sq")
	require.True(t, q.IsFinite().All().Item() == 1)
	a.Groups()[0].AMSGrad = false
	squareStep(a, q)
	require.True(t, q.IsFinite().All().Item() == 1)
}

// State made inside the caller's scope or inference mode must outlive both.
func TestStateOutlivesScopes(t *testing.T) {
	p := param(1, 2)
	var o optim.Optimizer
	torch.Scope(func(*torch.Arena) {
		torch.Scope(func(*torch.Arena) {
			o = optim.NewAdam([]*torch.Tensor{p})
			squareStep(o, p)
		})
	})
	squareStep(o, p)
	require.Equal(t, 2.0, o.StateDict().Tensors["state.0.step"].Item())
}

func TestStepsLeakNothing(t *testing.T) {
	p, q := param(1, 2, 3), param(4)
	for _, o := range []optim.Optimizer{
		optim.NewAdamW([]*torch.Tensor{p, q}), optim.NewSGD([]*torch.Tensor{p, q}, optim.Momentum(0.9)), optim.NewSGD([]*torch.Tensor{p, q}),
	} {
		for range 3 {
			squareStep(o, p, q)
		}
		before := live()
		for range 50 {
			squareStep(o, p, q)
		}
		require.Equal(t, before, torch.Live())
	}
}

// copyState is what a checkpoint does: numbers through JSON, tensors by value.
func copyState(t *testing.T, s optim.State) optim.State {
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var c optim.State
	require.NoError(t, json.Unmarshal(b, &c))
	c.Tensors = nn.StateDict(s.Tensors).Clone()
	return c
}

// A run that is resumed from a state equals one that was never stopped, to the bit.
func TestStateResumesToTheBit(t *testing.T) {
	for name, mk := range map[string]func(p, q *torch.Tensor) optim.Optimizer{
		"sgd": func(p, q *torch.Tensor) optim.Optimizer {
			return optim.NewSGD([]*torch.Tensor{p, q}, optim.LR(0.01), optim.Momentum(0.9), optim.Nesterov())
		},
		"adam": func(p, q *torch.Tensor) optim.Optimizer {
			o := optim.NewAdam([]*torch.Tensor{p}, optim.LR(0.01))
			o.AddGroup([]*torch.Tensor{q}, optim.AMSGrad())
			return o
		},
		"adamw": func(p, q *torch.Tensor) optim.Optimizer { return optim.NewAdamW([]*torch.Tensor{p, q}) },
	} {
		t.Run(name, func(t *testing.T) {
			p, q := param(1, 2, 3), param(-4)
			o := mk(p, q)
			squareStep(o, p) // q has no state yet
			squareStep(o, p)
			o.Groups()[0].LR *= 1.1
			st := copyState(t, o.StateDict())
			at := func(x *torch.Tensor) *torch.Tensor { return x.Detach().Clone().SetRequiresGrad(true) }
			p2, q2, spare := at(p), at(q), param(7, 8, 9)
			for range 5 {
				squareStep(o, p, q)
			}

			o2 := mk(p2, q2)
			torch.Scope(func(*torch.Arena) { require.NoError(t, o2.LoadStateDict(st)) })
			nn.StateDict(st.Tensors).Free() // values were copied
			require.Equal(t, o.Groups()[0].Hyper, o2.Groups()[0].Hyper)
			for range 5 {
				squareStep(o2, p2, q2)
			}
			require.True(t, p.Equal(p2))
			require.True(t, q.Equal(q2))

			// Loading replaces what was there.
			again := copyState(t, o2.StateDict())
			o3 := mk(spare, param(1))
			squareStep(o3, spare)
			require.NoError(t, o3.LoadStateDict(again))
			for k, x := range o2.StateDict().Tensors {
				require.True(t, x.Equal(o3.StateDict().Tensors[k]), k)
			}
		})
	}
}

func TestLoadStateDictErrors(t *testing.T) {
	p, q := param(1, 2), param(3)
	o := optim.NewAdam([]*torch.Tensor{p, q})
	squareStep(o, p, q)
	good := func() optim.State { return copyState(t, o.StateDict()) }
	for name, change := range map[string]func(s *optim.State){
		`the state is of the optimizer "sgd"`:         func(s *optim.State) { s.Optimizer = "sgd" },
		"the state has 0 parameter groups":            func(s *optim.State) { s.Groups = nil },
		"group 0 has 3 parameters in the state":       func(s *optim.State) { s.Groups[0].NumParams = 3 },
		"invalid learning rate: -1":                   func(s *optim.State) { s.Groups[0].LR = -1 },
		`unknown key "state.0.speed"`:                 func(s *optim.State) { s.Tensors["state.0.speed"] = p },
		`unknown key "state.2.step"`:                  func(s *optim.State) { s.Tensors["state.2.step"] = s.Tensors["state.1.step"] },
		`unknown key "step"`:                          func(s *optim.State) { s.Tensors["step"] = s.Tensors["state.1.step"] },
		"state.0.exp_avg does not have the shape [2]": func(s *optim.State) { s.Tensors["state.0.exp_avg"] = q },
		"state.0.step does not have the shape []":     func(s *optim.State) { s.Tensors["state.0.step"] = q },
		"the state of parameter 1 is incomplete":      func(s *optim.State) { delete(s.Tensors, "state.1.step") },
		"parameter 0 is incomplete":                   func(s *optim.State) { delete(s.Tensors, "state.0.exp_avg_sq") },
	} {
		s := good()
		change(&s)
		before := good()
		require.ErrorContains(t, o.LoadStateDict(s), name)
		for k, x := range before.Tensors {
			require.True(t, x.Equal(o.StateDict().Tensors[k]), k)
		}
	}
	require.NoError(t, o.LoadStateDict(good()))
}
