package optim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

type stepModel interface {
	Forward(x *torch.Tensor) *torch.Tensor
}

func recordedMLP() stepModel {
	return nn.Sequential{nn.NewLinear(20, 16), nn.ReLU{}, nn.NewLinear(16, 16), nn.ReLU{}, nn.NewLinear(16, 5)}
}

// flat is [B, C, H, W] as [B, C·H·W].
type flat struct{}

func (flat) Forward(x *torch.Tensor) *torch.Tensor { return x.Flatten(1, -1) }

// square is [B, 48] as an image [B, 3, 4, 4].
type square struct{}

func (square) Forward(x *torch.Tensor) *torch.Tensor { return x.Reshape(-1, 3, 4, 4) }

func recordedCNN() stepModel {
	return nn.Sequential{
		square{}, nn.NewConv2d(3, 8, 3, nn.Padding(1)), nn.NewBatchNorm2d(8), nn.ReLU{}, nn.NewDropout(0.3),
		nn.NewConv2d(8, 6, 3), nn.NewBatchNorm2d(6), nn.ReLU{}, nn.NewMaxPool2d(2), flat{}, nn.NewLinear(6, 5),
	}
}

type training struct {
	model stepModel
	opt   optim.Optimizer
	step  func(in []*torch.Tensor) []*torch.Tensor
}

func newTraining(seed int64, model func() stepModel, opt func([]*torch.Tensor) optim.Optimizer) *training {
	torch.ManualSeed(seed)
	m := model()
	t := &training{model: m, opt: opt(nn.Parameters(m))}
	t.step = func(in []*torch.Tensor) []*torch.Tensor {
		t.opt.ZeroGrad()
		z := t.model.Forward(in[0])
		loss := z.CrossEntropyLoss(in[1], nil, torch.ReductionMean)
		loss.Backward()
		t.opt.Step()
		return []*torch.Tensor{loss, z}
	}
	return t
}

// everything is all that training changes, by name.
func (t *training) everything() map[string]*torch.Tensor {
	all := map[string]*torch.Tensor{}
	for k, x := range nn.StateDictOf(t.model) {
		all[k] = x
	}
	for k, x := range t.opt.StateDict().Tensors {
		all["optimizer."+k] = x
	}
	for k, x := range nn.NamedParameters(t.model) {
		all["gradient."+k] = x.Grad()
	}
	return all
}

// Recorded steps give the bits of eager ones: losses, outputs, parameters, gradients, statistics, optimizer state, and the random numbers that
// come after.
func TestRecordedStepsEqualEager(t *testing.T) {
	sgd := func(o ...optim.Option) func([]*torch.Tensor) optim.Optimizer {
		return func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, append(o, optim.LR(0.05))...) }
	}
	for _, c := range []struct {
		name  string
		width int
		model func() stepModel
		opt   func([]*torch.Tensor) optim.Optimizer
	}{
		{"mlp sgd", 20, recordedMLP, sgd()},
		{"mlp momentum", 20, recordedMLP, sgd(optim.Momentum(0.9), optim.Nesterov(), optim.WeightDecay(1e-3))},
		{"mlp adamw", 20, recordedMLP, func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p, optim.LR(1e-2)) }},
		{"mlp adam amsgrad", 20, recordedMLP, func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdam(p, optim.AMSGrad()) }},
		{"mlp rmsprop", 20, recordedMLP, func(p []*torch.Tensor) optim.Optimizer { return optim.NewRMSprop(p) }},
		{"cnn sgd", 48, recordedCNN, sgd(optim.Momentum(0.9))},
		{"cnn adamw", 48, recordedCNN, func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, r := newTraining(1, c.model, c.opt), newTraining(1, c.model, c.opt)
			recorded := torch.Record(r.step)
			defer recorded.Close()
			data := torch.NewGenerator(5)
			random := map[bool]*torch.Tensor{}
			torch.ManualSeed(9)
			both := torch.RNGState()
			random[false], random[true] = both, both.Clone()
			for i := range 100 {
				rows := 7
				if i%10 == 8 { // a last batch, shorter
					rows = 4
				}
				x := torch.Randn(torch.S(rows, c.width), data)
				y := torch.Randint(0, 5, torch.S(rows), data)
				lr := 0.01 + 0.001*float64(i%7) // a schedule
				e.opt.Groups()[0].LR, r.opt.Groups()[0].LR = lr, lr

				torch.SetRNGState(random[false])
				want := e.step([]*torch.Tensor{x, y})
				random[false] = torch.RNGState()
				torch.SetRNGState(random[true])
				got, err := recorded.Run(x, y)
				require.NoError(t, err)
				random[true] = torch.RNGState()

				for k := range want {
					require.True(t, want[k].Detach().Equal(got[k]), "output %d of step %d", k, i)
				}
				require.True(t, random[false].Equal(random[true]), "random numbers after step %d", i)
				theirs := r.everything()
				for k, w := range e.everything() {
					require.NotNil(t, theirs[k], k)
					require.True(t, w.Equal(theirs[k]), "%s after step %d", k, i)
				}
			}
			require.NotEmpty(t, recorded.Kernels())
			if testing.Verbose() && c.name == "mlp adamw" {
				fmt.Println(recorded.Kernels())
			}
		})
	}
}
