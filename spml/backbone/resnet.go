package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ResNet is torchvision's resnet (He et al. 2015, arXiv:1512.03385), with the stride of a bottleneck on its 3×3
// convolution ("v1.5").
type ResNet struct {
	Conv1  *nn.Conv2d
	BN1    *nn.BatchNorm2d
	Layer1 nn.Sequential
	Layer2 nn.Sequential
	Layer3 nn.Sequential
	Layer4 nn.Sequential
	FC     *nn.Linear

	maxPool *nn.MaxPool2d
}

type blockKind int

const (
	basicBlock blockKind = iota // two 3×3 convolutions
	bottleneck                  // 1×1, 3×3, 1×1 to four times the planes
)

func (k blockKind) expansion() int {
	if k == bottleneck {
		return 4
	}
	return 1
}

// residualBlock is both kinds; Conv3 and BN3 are nil in a basic one, Downsample where the shape does not change.
type residualBlock struct {
	Conv1      *nn.Conv2d
	BN1        *nn.BatchNorm2d
	Conv2      *nn.Conv2d
	BN2        *nn.BatchNorm2d
	Conv3      *nn.Conv2d
	BN3        *nn.BatchNorm2d
	Downsample nn.Sequential
}

func conv(in, out, kernel, stride int) *nn.Conv2d {
	return nn.NewConv2d(in, out, kernel, nn.Stride(stride), nn.Padding(kernel/2), nn.Bias(false))
}

func (k blockKind) make(in, planes, stride int, downsample nn.Sequential) *residualBlock {
	if k == basicBlock {
		return &residualBlock{
			Conv1: conv(in, planes, 3, stride), BN1: nn.NewBatchNorm2d(planes),
			Conv2: conv(planes, planes, 3, 1), BN2: nn.NewBatchNorm2d(planes), Downsample: downsample,
		}
	}
	return &residualBlock{
		Conv1: conv(in, planes, 1, 1), BN1: nn.NewBatchNorm2d(planes),
		Conv2: conv(planes, planes, 3, stride), BN2: nn.NewBatchNorm2d(planes),
		Conv3: conv(planes, 4*planes, 1, 1), BN3: nn.NewBatchNorm2d(4 * planes), Downsample: downsample,
	}
}

func (b *residualBlock) Forward(x *torch.Tensor) *torch.Tensor {
	relu := nn.ReLU{Inplace: true}
	var y *torch.Tensor
	if b.Conv3 == nil {
		y = nn.Through(x, b.Conv1, b.BN1, relu, b.Conv2, b.BN2)
	} else {
		y = nn.Through(x, b.Conv1, b.BN1, relu, b.Conv2, b.BN2, relu, b.Conv3, b.BN3)
	}
	shortcut := x
	if b.Downsample != nil {
		shortcut = b.Downsample.Forward(x)
	}
	y.Add_(shortcut).Relu_()
	if shortcut != x {
		shortcut.Free()
	}
	return y
}

func newResNet(kind blockKind, depths [4]int, classes int) *ResNet {
	m := &ResNet{Conv1: nn.NewConv2d(3, 64, 7, nn.Stride(2), nn.Padding(3), nn.Bias(false)), BN1: nn.NewBatchNorm2d(64), maxPool: nn.NewMaxPool2d(3, nn.Stride(2), nn.Padding(1))}
	in := 64
	for i, to := range []*nn.Sequential{&m.Layer1, &m.Layer2, &m.Layer3, &m.Layer4} {
		planes, stride := 64<<i, 1
		if i > 0 {
			stride = 2
		}
		out := planes * kind.expansion()
		for range depths[i] {
			var down nn.Sequential
			if stride != 1 || in != out {
				down = nn.Sequential{conv(in, out, 1, stride), nn.NewBatchNorm2d(out)}
			}
			*to = append(*to, kind.make(in, planes, stride, down))
			in, stride = out, 1
		}
	}
	m.FC = nn.NewLinear(in, classes)
	for _, l := range nn.Modules(m) {
		if c, ok := l.(*nn.Conv2d); ok {
			nn.KaimingNormal_(c.Weight, 0, nn.FanOut, nn.NonlinearityReLU, nil)
		}
	}
	return m
}

// FeatureMap divides the sides by 32.
func (m *ResNet) FeatureMap(x *torch.Tensor) *torch.Tensor {
	return nn.Through(x, m.Conv1, m.BN1, nn.ReLU{Inplace: true}, m.maxPool, m.Layer1, m.Layer2, m.Layer3, m.Layer4)
}

// Features are [B, 512] for basic blocks, [B, 2048] for bottlenecks.
func (m *ResNet) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward gives logits.
func (m *ResNet) Forward(x *torch.Tensor) *torch.Tensor { return logits(m, x) }

// FeatureDim is the classifier's input width.
func (m *ResNet) FeatureDim() int { return m.FC.InFeatures }

// Head is fc.
func (m *ResNet) Head() *nn.Linear { return m.FC }
