package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// SmallCNN is a network for 64×64 pictures that trains in seconds on two cores: five 3×3 convolutions with batch
// normalisation and ReLU, three of them halving the sides; 278,000 parameters besides the classifier.
type SmallCNN struct {
	Blocks nn.Sequential `torch:"features"`
	FC     *nn.Linear
}

// NewSmallCNN makes a network in training mode. Convolutions start from Kaiming's normal distribution (fan out), the
// classifier as torch.nn.Linear. Options: nn.DType, nn.Device, nn.Generator, nn.NoInit.
func NewSmallCNN(numClasses int, opts ...nn.Option) *SmallCNN {
	f := nn.FactoryOf("backbone.NewSmallCNN", opts)
	b := builder{opts}
	m := &SmallCNN{}
	in := 3
	for _, row := range [][2]int{{32, 2}, {64, 2}, {64, 1}, {128, 2}, {128, 1}} { // channels, stride
		m.Blocks = append(m.Blocks, nn.Sequential{b.conv(in, row[0], 3, row[1]), b.norm(row[0]), relu})
		in = row[0]
	}
	m.FC = nn.NewLinear(in, numClasses, opts...)
	initConvs(m, f)
	return m
}

// FeatureMap divides the sides by 8, [B, 128, H/8, W/8].
func (m *SmallCNN) FeatureMap(x *torch.Tensor) *torch.Tensor { return m.Blocks.Forward(x) }

// Features are [B, 128].
func (m *SmallCNN) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward gives logits, [B, C].
func (m *SmallCNN) Forward(x *torch.Tensor) *torch.Tensor { return classify(m.FC, m.Features(x)) }

// FeatureDim is 128.
func (m *SmallCNN) FeatureDim() int { return m.FC.InFeatures }

// Head is fc.
func (m *SmallCNN) Head() *nn.Linear { return m.FC }

// HeadKey is "fc".
func (m *SmallCNN) HeadKey() string { return "fc" }

// SetHead replaces fc.
func (m *SmallCNN) SetHead(l *nn.Linear) { m.FC = l }
