package backbone_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func TestNames(t *testing.T) {
	require.Len(t, backbone.Names(), 23)
	require.Subset(t, backbone.Names(), []string{"convnext_xlarge", "mobilenet_v2", "resnet50", "small_cnn", "squeezenet1_1", "vit_large_patch16"})
	_, err := backbone.New("vgg16", 3)
	require.ErrorContains(t, err, `no model is called "vgg16"; there are convnext_base, `)
	_, err = backbone.New("resnet18", 0)
	require.ErrorContains(t, err, "0 classes, want at least 1")
	_, err = backbone.New("resnet18", 2, nn.Stride(2))
	require.ErrorContains(t, err, `backbone.NewResNet: takes no option "Stride"`)
}

// Every model keeps its promises about shapes, keys, head and options.
func TestModels(t *testing.T) {
	for _, name := range backbone.Names() {
		t.Run(name, func(t *testing.T) {
			m, err := backbone.New(name, 3, nn.NoInit(), nn.DType(torch.Float64))
			require.NoError(t, err)
			for k, p := range nn.NamedParameters(m) {
				require.Equal(t, torch.Float64, p.DType(), k)
				require.True(t, p.RequiresGrad(), k)
			}
			sd := nn.StateDictOf(m)
			require.Same(t, m.Head().Weight, sd[m.HeadKey()+".weight"])
			require.Same(t, m.Head().Bias, sd[m.HeadKey()+".bias"])
			require.Equal(t, []int{3, m.FeatureDim()}, m.Head().Weight.Shape())

			body, head := backbone.Split(m)
			require.Equal(t, []*torch.Tensor{m.Head().Weight, m.Head().Bias}, head)
			require.Len(t, nn.Parameters(m), len(body)+2)
			require.NotContains(t, body, m.Head().Weight)

			require.NoError(t, backbone.ReplaceHead(m, 5))
			require.Equal(t, []int{5, m.FeatureDim()}, m.Head().Weight.Shape())
			require.Equal(t, torch.Float64, m.Head().Weight.DType())
			require.Same(t, m.Head().Weight, nn.StateDictOf(m)[m.HeadKey()+".weight"])
			require.ErrorContains(t, backbone.ReplaceHead(m, 0), "0 classes")
		})
	}
}

// Inference leaves nothing behind, holds few results at a time, and accepts any size and memory format.
func TestInferenceLeaksNothing(t *testing.T) {
	for _, name := range []string{"mobilenet_v2", "resnet18", "small_cnn"} {
		torch.ManualSeed(1)
		m, err := backbone.New(name, 3)
		require.NoError(t, err)
		nn.SetTraining(m, false)
		x := torch.Randn(torch.S(2, 3, 72, 64))
		nhwc := x.ContiguousFormat(torch.ChannelsLast)
		run := func(x *torch.Tensor) (y []float32) {
			torch.Inference(func() {
				torch.Scope(func(*torch.Arena) {
					before := torch.Live()
					l := m.Forward(x)
					require.Equal(t, before+1, torch.Live(), "only the logits are left within the scope")
					y = torch.ToSlice[float32](l)
				})
			})
			return y
		}
		want := run(x)
		before := live()
		for range 3 {
			require.Equal(t, want, run(x))
		}
		require.Equal(t, before, torch.Live())
		require.InDeltaSlice(t, want, run(nhwc), 1e-4)
	}
}

// A step in a scope leaves nothing but gradients.
func TestTrainingLeaksNothing(t *testing.T) {
	torch.ManualSeed(1)
	m, err := backbone.New("mobilenet_v2", 3)
	require.NoError(t, err)
	opt := optim.NewAdam(nn.Parameters(m))
	x, y := torch.Randn(torch.S(4, 3, 32, 32)), torch.Zeros(torch.S(4, 3))
	step := func() {
		torch.Scope(func(*torch.Arena) {
			opt.ZeroGrad()
			m.Forward(x).BinaryCrossEntropyWithLogits(y, nil, nil, torch.ReductionMean).Backward()
			opt.Step()
		})
	}
	step()
	before := live()
	for range 3 {
		step()
	}
	require.Equal(t, before, torch.Live())
}

// The small network learns bright from dark, and colours, within seconds.
func TestSmallCNNLearns(t *testing.T) {
	torch.ManualSeed(3)
	m, err := backbone.New("small_cnn", 3)
	require.NoError(t, err)
	require.InDelta(t, 278000, nn.CountParameters(m), 1000)
	y := torch.Randint(0, 2, torch.S(32, 3)).ToDType(torch.Float32)
	x := torch.Randn(torch.S(32, 3, 64, 64)).Add(y.MulScalar(0.5).Reshape(32, 3, 1, 1))
	opt := optim.NewAdam(nn.Parameters(m))
	var first, last float64
	for i := range 12 {
		torch.Scope(func(*torch.Arena) {
			opt.ZeroGrad()
			loss := m.Forward(x).BinaryCrossEntropyWithLogits(y, nil, nil, torch.ReductionMean)
			loss.Backward()
			opt.Step()
			if last = loss.Item(); i == 0 {
				first = last
			}
		})
	}
	require.Less(t, last, first/4)
	torch.Scope(func(*torch.Arena) {
		require.Equal(t, []int{32, 128, 8, 8}, m.FeatureMap(x).Shape())
		require.Equal(t, []int{32, 128}, m.Features(x).Shape())
	})
}

func TestRegister(t *testing.T) {
	require.Error(t, backbone.Register("resnet18", func(c int, o ...nn.Option) backbone.Model { return backbone.NewSmallCNN(c, o...) }))
	require.Error(t, backbone.Register("", nil))
	require.NoError(t, backbone.Register("mine", func(c int, o ...nn.Option) backbone.Model { return backbone.NewSmallCNN(c, o...) }))
	require.Contains(t, backbone.Names(), "mine")
	m, err := backbone.New("mine", 3)
	require.NoError(t, err)
	require.Equal(t, 3, m.Head().OutFeatures)
}
