package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ResNet is torchvision's residual network ("v1.5": a bottleneck's stride is on its 3×3 convolution; He et al. 2016,
// arXiv:1512.03385).
type ResNet struct {
	Conv1                          *nn.Conv2d
	BN1                            *nn.BatchNorm2d
	MaxPool                        *nn.MaxPool2d
	Layer1, Layer2, Layer3, Layer4 nn.Sequential // of BasicBlock or Bottleneck
	FC                             *nn.Linear

	// Checkpointing keeps the outputs of the blocks alone and computes what is inside again during backward. Normalisation
	// must be frozen.
	Checkpointing bool `torch:"-"`
}

// BlockKind says what the layers are made of.
type BlockKind int

// The kinds of blocks.
const (
	BasicBlocks BlockKind = iota // two 3×3 convolutions
	Bottlenecks                  // 1×1, 3×3, 1×1 to four times the planes
)

// expansion is the number of output channels over planes.
func (k BlockKind) expansion() int {
	if k == Bottlenecks {
		return 4
	}
	return 1
}

// NewResNet makes a network of four layers of this depth and 64, 128, 256, 512 planes, in training mode. Convolutions
// start from Kaiming's normal distribution (fan out), the head as torch.nn.Linear. Options: nn.DType, nn.Device,
// nn.Generator, nn.NoInit.
func NewResNet(kind BlockKind, depths [4]int, numClasses int, opts ...nn.Option) *ResNet {
	f := nn.FactoryOf("backbone.NewResNet", opts)
	b := builder{opts}
	m := &ResNet{
		Conv1: b.conv(3, 64, 7, 2), BN1: b.norm(64),
		MaxPool: nn.NewMaxPool2d(3, nn.Stride(2), nn.Padding(1)),
	}
	in := 64
	layer := func(planes, blocks, stride int) nn.Sequential {
		var s nn.Sequential
		for range blocks {
			s = append(s, b.block(kind, in, planes, stride))
			in, stride = planes*kind.expansion(), 1
		}
		return s
	}
	m.Layer1 = layer(64, depths[0], 1)
	m.Layer2 = layer(128, depths[1], 2)
	m.Layer3 = layer(256, depths[2], 2)
	m.Layer4 = layer(512, depths[3], 2)
	m.FC = nn.NewLinear(in, numClasses, opts...)
	initConvs(m, f)
	return m
}

// builder makes layers without bias whose padding keeps the size, apart from the stride.
type builder struct{ opts []nn.Option }

func (b builder) conv(in, out, kernel, stride int, more ...nn.Option) *nn.Conv2d {
	o := append([]nn.Option{nn.Stride(stride), nn.Padding(kernel / 2), nn.Bias(false)}, b.opts...)
	return nn.NewConv2d(in, out, kernel, append(o, more...)...)
}

func (b builder) norm(channels int) *nn.BatchNorm2d { return nn.NewBatchNorm2d(channels, b.opts...) }

// initConvs draws all convolutions once more, after the constructors' draws and in the order of the modules: thus
// torchvision arrives at its weights.
func initConvs(m any, f nn.Factory) {
	if f.NoInit {
		return
	}
	for _, l := range nn.Modules(m) {
		if c, ok := l.(*nn.Conv2d); ok {
			nn.KaimingNormal_(c.Weight, 0, nn.FanOut, nn.NonlinearityReLU, f.Generator)
		}
	}
}

// BasicBlock is relu(x + bn2(conv2(relu(bn1(conv1 x))))).
type BasicBlock struct {
	Conv1      *nn.Conv2d
	BN1        *nn.BatchNorm2d
	Conv2      *nn.Conv2d
	BN2        *nn.BatchNorm2d
	Downsample nn.Sequential // 1×1 convolution and normalisation of the shortcut; nil where shapes agree
}

// Bottleneck is relu(x + bn3(conv3(relu(bn2(conv2(relu(bn1(conv1 x)))))))).
type Bottleneck struct {
	Conv1      *nn.Conv2d
	BN1        *nn.BatchNorm2d
	Conv2      *nn.Conv2d
	BN2        *nn.BatchNorm2d
	Conv3      *nn.Conv2d
	BN3        *nn.BatchNorm2d
	Downsample nn.Sequential // 1×1 convolution and normalisation of the shortcut; nil where shapes agree
}

func (b builder) block(kind BlockKind, in, planes, stride int) nn.Layer {
	out := planes * kind.expansion()
	var down nn.Sequential
	if stride != 1 || in != out {
		down = nn.Sequential{b.conv(in, out, 1, stride), b.norm(out)}
	}
	if kind == Bottlenecks {
		return &Bottleneck{
			Conv1: b.conv(in, planes, 1, 1), BN1: b.norm(planes),
			Conv2: b.conv(planes, planes, 3, stride), BN2: b.norm(planes),
			Conv3: b.conv(planes, out, 1, 1), BN3: b.norm(out), Downsample: down,
		}
	}
	return &BasicBlock{
		Conv1: b.conv(in, planes, 3, stride), BN1: b.norm(planes),
		Conv2: b.conv(planes, planes, 3, 1), BN2: b.norm(planes), Downsample: down,
	}
}

var relu = nn.ReLU{Inplace: true}

// Forward maps [B, in, h, w] to [B, planes, h/stride, w/stride].
func (b *BasicBlock) Forward(x *torch.Tensor) *torch.Tensor {
	return shortcut(x, nn.Through(x, b.Conv1, b.BN1, relu, b.Conv2, b.BN2), b.Downsample)
}

// Forward maps [B, in, h, w] to [B, 4·planes, h/stride, w/stride].
func (b *Bottleneck) Forward(x *torch.Tensor) *torch.Tensor {
	return shortcut(x, nn.Through(x, b.Conv1, b.BN1, relu, b.Conv2, b.BN2, relu, b.Conv3, b.BN3), b.Downsample)
}

// shortcut is relu(y + x), written into y.
func shortcut(x, y *torch.Tensor, down nn.Sequential) *torch.Tensor {
	if down == nil {
		return y.Add_(x).Relu_()
	}
	s := down.Forward(x)
	y.Add_(s)
	s.Free()
	return y.Relu_()
}

// FeatureMap is the output of layer4, [B, D, H/32, W/32].
func (m *ResNet) FeatureMap(x *torch.Tensor) *torch.Tensor {
	layers := []nn.Layer{m.Conv1, m.BN1, relu, m.MaxPool}
	for _, s := range []nn.Sequential{m.Layer1, m.Layer2, m.Layer3, m.Layer4} {
		for _, block := range s {
			if m.Checkpointing && torch.GradEnabled() {
				block = checkpointed{block}
			}
			layers = append(layers, block)
		}
	}
	return nn.Through(x, layers...)
}

// checkpointed is a layer that is computed again during backward; one without gradients is not.
type checkpointed struct{ nn.Layer }

// Forward keeps what the layer does.
func (c checkpointed) Forward(x *torch.Tensor) *torch.Tensor {
	for _, p := range nn.Parameters(c.Layer) {
		if p.RequiresGrad() {
			return torch.Checkpoint(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{c.Layer.Forward(in[0])} }, x)[0]
		}
	}
	return c.Layer.Forward(x)
}

// Features is the mean of FeatureMap over positions, [B, D].
func (m *ResNet) Features(x *torch.Tensor) *torch.Tensor { return pool(m.FeatureMap(x)) }

// Forward gives logits, [B, C].
func (m *ResNet) Forward(x *torch.Tensor) *torch.Tensor { return classify(m.FC, m.Features(x)) }

// FeatureDim is 512, or 2048 for bottlenecks.
func (m *ResNet) FeatureDim() int { return m.FC.InFeatures }

// Head is fc.
func (m *ResNet) Head() *nn.Linear { return m.FC }

// HeadKey is "fc".
func (m *ResNet) HeadKey() string { return "fc" }

// SetHead replaces fc.
func (m *ResNet) SetHead(l *nn.Linear) { m.FC = l }

// CheckpointBody turns Checkpointing on.
func (m *ResNet) CheckpointBody() { m.Checkpointing = true }
