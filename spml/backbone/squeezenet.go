package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// SqueezeNet is torchvision's (Iandola et al. 2016, arXiv:1602.07360) but for the classifier: torchvision's is a 1×1 convolution with a
// ReLU before the mean, whose logits are never negative; here it is linear on the pooled features, as for every backbone, and the one
// of a file is left out.
type SqueezeNet struct {
	Blocks     nn.Sequential `torch:"features"`
	Classifier nn.Sequential // Dropout, Linear
}

// Fire squeezes the channels and widens them by 1×1 and 3×3 convolutions side by side.
type Fire struct {
	Squeeze   *nn.Conv2d `torch:"squeeze"`
	Expand1x1 *nn.Conv2d `torch:"expand1x1"`
	Expand3x3 *nn.Conv2d `torch:"expand3x3"`
}

// Forward maps [B, in, h, w] to [B, e1 + e3, h, w].
func (f *Fire) Forward(x *torch.Tensor) *torch.Tensor {
	s := f.Squeeze.Forward(x).Relu()
	return torch.Cat([]*torch.Tensor{f.Expand1x1.Forward(s).Relu(), f.Expand3x3.Forward(s).Relu()}, 1)
}

// squeezeNets are the layers by name: {0} is a pool, else squeeze and expansion of a Fire; first are the channels and the kernel of the first
// convolution.
var squeezeNets = map[string]struct {
	channels, kernel int
	layers           [][2]int
}{
	"squeezenet1_0": {96, 7, [][2]int{{}, {16, 64}, {16, 64}, {32, 128}, {}, {32, 128}, {48, 192}, {48, 192}, {64, 256}, {}, {64, 256}}},
	"squeezenet1_1": {64, 3, [][2]int{{}, {16, 64}, {16, 64}, {}, {32, 128}, {32, 128}, {}, {48, 192}, {48, 192}, {64, 256}, {64, 256}}},
}

// NewSqueezeNet makes version "squeezenet1_0" or "squeezenet1_1" in training mode; its classifier has dropout 0.5. Convolutions start
// from Kaiming's uniform distribution, biases from 0. Options: nn.DType, nn.Device, nn.Generator, nn.NoInit.
func NewSqueezeNet(version string, numClasses int, opts ...nn.Option) *SqueezeNet {
	f := nn.FactoryOf("backbone.NewSqueezeNet", opts)
	v := squeezeNets[version]
	conv := func(in, out, kernel int, more ...nn.Option) *nn.Conv2d {
		return nn.NewConv2d(in, out, kernel, append(more, opts...)...)
	}
	m := &SqueezeNet{Blocks: nn.Sequential{conv(3, v.channels, v.kernel, nn.Stride(2)), nn.ReLU{}}}
	in := v.channels
	for _, l := range v.layers {
		if l[0] == 0 {
			p := nn.NewMaxPool2d(3, nn.Stride(2))
			p.CeilMode = true
			m.Blocks = append(m.Blocks, p)
			continue
		}
		m.Blocks = append(m.Blocks, &Fire{conv(in, l[0], 1), conv(l[0], l[1], 1), conv(l[0], l[1], 3, nn.Padding(1))})
		in = 2 * l[1]
	}
	m.Classifier = nn.Sequential{nn.NewDropout(0.5), nn.NewLinear(in, numClasses, opts...)}
	if !f.NoInit {
		torch.NoGrad(func() {
			for _, l := range nn.Modules(m.Blocks) {
				if c, ok := l.(*nn.Conv2d); ok {
					nn.KaimingUniform_(c.Weight, 0, nn.FanIn, nn.NonlinearityReLU, f.Generator)
					nn.Zeros_(c.Bias)
				}
			}
		})
	}
	return m
}

// FeatureMap is the output of the last Fire, [B, 512, h, w].
func (m *SqueezeNet) FeatureMap(x *torch.Tensor) *torch.Tensor { return m.Blocks.Forward(x) }

// Features is the mean of FeatureMap over positions, [B, 512].
func (m *SqueezeNet) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward gives logits, [B, C].
func (m *SqueezeNet) Forward(x *torch.Tensor) *torch.Tensor {
	return classify(m.Classifier, m.Features(x))
}

// FeatureDim is 512.
func (m *SqueezeNet) FeatureDim() int { return m.Head().InFeatures }

// Head is classifier.1.
func (m *SqueezeNet) Head() *nn.Linear { return m.Classifier[1].(*nn.Linear) }

// HeadKey is "classifier.1".
func (m *SqueezeNet) HeadKey() string { return "classifier.1" }

// SetHead replaces classifier.1.
func (m *SqueezeNet) SetHead(l *nn.Linear) { m.Classifier[1] = l }
