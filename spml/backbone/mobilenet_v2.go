package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// MobileNetV2 is torchvision's mobilenet_v2 of width 1 (Sandler et al. 2018, arXiv:1801.04381, Table 2).
type MobileNetV2 struct {
	Blocks     nn.Sequential `torch:"features"`
	Classifier nn.Sequential // dropout 0.2, linear 1280 -> classes
}

// convBNReLU6 is a convolution that keeps the size (divided by stride), batch normalisation, ReLU6.
func convBNReLU6(in, out, kernel, stride, groups int) nn.Sequential {
	return nn.Sequential{
		nn.NewConv2d(in, out, kernel, nn.Stride(stride), nn.Padding((kernel-1)/2), nn.Groups(groups), nn.Bias(false)),
		nn.NewBatchNorm2d(out),
		nn.ReLU6{Inplace: true},
	}
}

// invertedResidual expands channels, filters each, and projects; the input is added where the shape is the same.
type invertedResidual struct {
	Conv nn.Sequential

	residual bool
}

func newInvertedResidual(in, out, stride, expand int) *invertedResidual {
	hidden := in * expand
	var s nn.Sequential
	if expand != 1 {
		s = append(s, convBNReLU6(in, hidden, 1, 1, 1))
	}
	s = append(s, convBNReLU6(hidden, hidden, 3, stride, hidden),
		nn.NewConv2d(hidden, out, 1, nn.Bias(false)), nn.NewBatchNorm2d(out))
	return &invertedResidual{Conv: s, residual: stride == 1 && in == out}
}

func (b *invertedResidual) Forward(x *torch.Tensor) *torch.Tensor {
	y := b.Conv.Forward(x)
	if !b.residual {
		return y
	}
	z := x.Add(y)
	y.Free()
	return z
}

func newMobileNetV2(classes int) *MobileNetV2 {
	m := &MobileNetV2{Blocks: nn.Sequential{convBNReLU6(3, 32, 3, 2, 1)}}
	in := 32
	for _, row := range [][4]int{ // expansion, channels, repeats, first stride
		{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
	} {
		stride := row[3]
		for range row[2] {
			m.Blocks = append(m.Blocks, newInvertedResidual(in, row[1], stride, row[0]))
			in, stride = row[1], 1
		}
	}
	m.Blocks = append(m.Blocks, convBNReLU6(in, 1280, 1, 1, 1))
	m.Classifier = nn.Sequential{nn.NewDropout(0.2), nn.NewLinear(1280, classes)}
	for _, l := range nn.Modules(m) {
		switch l := l.(type) {
		case *nn.Conv2d:
			nn.KaimingNormal_(l.Weight, 0, nn.FanOut, nn.NonlinearityReLU, nil)
		case *nn.Linear:
			nn.Normal_(l.Weight, 0, 0.01, nil)
			nn.Zeros_(l.Bias)
		}
	}
	return m
}

// FeatureMap divides the sides by 32.
func (m *MobileNetV2) FeatureMap(x *torch.Tensor) *torch.Tensor { return m.Blocks.Forward(x) }

// Features are [B, 1280].
func (m *MobileNetV2) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward applies dropout in training mode, as torchvision does; nn.SetDropout(m, 0) takes it out.
func (m *MobileNetV2) Forward(x *torch.Tensor) *torch.Tensor {
	return m.Classifier.Forward(m.Features(x))
}

// FeatureDim is 1280.
func (m *MobileNetV2) FeatureDim() int { return m.Head().InFeatures }

// Head is classifier.1.
func (m *MobileNetV2) Head() *nn.Linear { return m.Classifier[1].(*nn.Linear) }
