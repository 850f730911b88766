package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// SmallCNN is a network for 64×64 pictures that trains in seconds on two cores: five 3×3 convolutions with batch
// normalisation and ReLU, three of them halving the sides.
type SmallCNN struct {
	Blocks nn.Sequential `torch:"features"`
	FC     *nn.Linear
}

func newSmallCNN(classes int) *SmallCNN {
	m := &SmallCNN{}
	in := 3
	for _, row := range [][2]int{{32, 2}, {64, 2}, {64, 1}, {128, 2}, {128, 1}} { // channels, stride
		m.Blocks = append(m.Blocks, nn.Sequential{conv(in, row[0], 3, row[1]), nn.NewBatchNorm2d(row[0]), nn.ReLU{Inplace: true}})
		in = row[0]
	}
	m.FC = nn.NewLinear(in, classes)
	for _, l := range nn.Modules(m) {
		if c, ok := l.(*nn.Conv2d); ok {
			nn.KaimingNormal_(c.Weight, 0, nn.FanOut, nn.NonlinearityReLU, nil)
		}
	}
	return m
}

// FeatureMap divides the sides by 8, [B, 128, H/8, W/8].
func (m *SmallCNN) FeatureMap(x *torch.Tensor) *torch.Tensor { return m.Blocks.Forward(x) }

// Features are [B, 128].
func (m *SmallCNN) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward gives logits.
func (m *SmallCNN) Forward(x *torch.Tensor) *torch.Tensor { return logits(m, x) }

// FeatureDim is 128.
func (m *SmallCNN) FeatureDim() int { return m.FC.InFeatures }

// Head is fc.
func (m *SmallCNN) Head() *nn.Linear { return m.FC }
