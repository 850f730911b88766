package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// MobileNetV2 is torchvision's, of width 1 (Sandler et al. 2018, arXiv:1801.04381).
type MobileNetV2 struct {
	Blocks     nn.Sequential `torch:"features"`
	Classifier nn.Sequential // Dropout, Linear
}

// invertedResiduals are expansion t, channels c, repeats n, stride s of the first: table 2 of the paper.
var invertedResiduals = [][4]int{
	{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
}

// NewMobileNetV2 makes a network in training mode; its classifier has dropout 0.2 (nn.SetDropout changes it).
// Convolutions start from Kaiming's normal distribution (fan out), the head from N(0, 0.01²) with bias 0. Options: nn.DType,
// nn.Device, nn.Generator, nn.NoInit.
func NewMobileNetV2(numClasses int, opts ...nn.Option) *MobileNetV2 {
	f := nn.FactoryOf("backbone.NewMobileNetV2", opts)
	b := builder{opts}
	m := &MobileNetV2{Blocks: nn.Sequential{b.convNormReLU6(3, 32, 3, 2)}}
	in := 32
	for _, r := range invertedResiduals {
		t, c, n, s := r[0], r[1], r[2], r[3]
		for i := range n {
			if i > 0 {
				s = 1
			}
			m.Blocks = append(m.Blocks, b.inverted(in, c, s, t))
			in = c
		}
	}
	m.Blocks = append(m.Blocks, b.convNormReLU6(in, 1280, 1, 1))
	m.Classifier = nn.Sequential{nn.NewDropout(0.2), nn.NewLinear(1280, numClasses, opts...)}
	initConvs(m, f)
	if !f.NoInit {
		nn.Normal_(m.Head().Weight, 0, 0.01, f.Generator)
		nn.Zeros_(m.Head().Bias)
	}
	return m
}

func (b builder) convNormReLU6(in, out, kernel, stride int, more ...nn.Option) nn.Sequential {
	return nn.Sequential{b.conv(in, out, kernel, stride, more...), b.norm(out), nn.ReLU6{Inplace: true}}
}

// InvertedResidual widens t times, convolves each channel by itself, and narrows without activation.
type InvertedResidual struct {
	Conv     nn.Sequential
	Shortcut bool // + x, where the shapes agree
}

func (b builder) inverted(in, out, stride, t int) *InvertedResidual {
	wide := in * t
	var s nn.Sequential
	if t != 1 {
		s = append(s, b.convNormReLU6(in, wide, 1, 1))
	}
	s = append(s, b.convNormReLU6(wide, wide, 3, stride, nn.Groups(wide)), b.conv(wide, out, 1, 1), b.norm(out))
	return &InvertedResidual{Conv: s, Shortcut: stride == 1 && in == out}
}

// Forward maps [B, in, h, w] to [B, out, h/stride, w/stride].
func (r *InvertedResidual) Forward(x *torch.Tensor) *torch.Tensor {
	y := r.Conv.Forward(x)
	if r.Shortcut {
		y.Add_(x)
	}
	return y
}

// FeatureMap is the output of the last convolution, [B, 1280, H/32, W/32].
func (m *MobileNetV2) FeatureMap(x *torch.Tensor) *torch.Tensor { return m.Blocks.Forward(x) }

// Features is the mean of FeatureMap over positions, [B, 1280].
func (m *MobileNetV2) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward gives logits, [B, C].
func (m *MobileNetV2) Forward(x *torch.Tensor) *torch.Tensor {
	return classify(m.Classifier, m.Features(x))
}

// FeatureDim is 1280.
func (m *MobileNetV2) FeatureDim() int { return 1280 }

// Head is classifier.1.
func (m *MobileNetV2) Head() *nn.Linear { return m.Classifier[1].(*nn.Linear) }

// HeadKey is "classifier.1".
func (m *MobileNetV2) HeadKey() string { return "classifier.1" }

// SetHead replaces classifier.1.
func (m *MobileNetV2) SetHead(l *nn.Linear) { m.Classifier[1] = l }
