package backbone

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ConvNeXt is the convolutional network of Liu et al. 2022 (arXiv:2201.03545) with timm's keys; files of torchvision
// and of the original release load too. Its pooled features go through a layer normalisation before the classifier.
type ConvNeXt struct {
	Stem   nn.Sequential    `torch:"stem"` // Conv2d 4×4 of stride 4, normalisation
	Stages []*ConvNeXtStage `torch:"stages"`
	Top    *ConvNeXtHead    `torch:"head"`
}

// ConvNeXtStage halves the resolution, but for the first, and has residual blocks.
type ConvNeXtStage struct {
	Downsample nn.Sequential    `torch:"downsample"` // normalisation, Conv2d 2×2 of stride 2
	Blocks     []*ConvNeXtBlock `torch:"blocks"`
}

// ConvNeXtBlock is x + γ·MLP(LN(depth-wise 7×7)).
type ConvNeXtBlock struct {
	Gamma  *torch.Tensor `torch:"gamma"` // [c]
	ConvDW *nn.Conv2d    `torch:"conv_dw"`
	Norm   *nn.LayerNorm `torch:"norm"`
	MLP    *ConvNeXtMLP  `torch:"mlp"`
}

// ConvNeXtMLP widens four times, with the exact GELU between.
type ConvNeXtMLP struct {
	FC1 *nn.Linear `torch:"fc1"`
	FC2 *nn.Linear `torch:"fc2"`
}

// ConvNeXtHead is the normalisation of the pooled features and the classifier.
type ConvNeXtHead struct {
	Norm *nn.LayerNorm `torch:"norm"`
	FC   *nn.Linear    `torch:"fc"`
}

// channelNorm normalises the channels of [B, C, h, w].
type channelNorm struct {
	Weight, Bias *torch.Tensor // [C]
	Eps          float64
}

// Forward keeps the shape.
func (n *channelNorm) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.LayerNorm(x.Permute(0, 2, 3, 1), n.Weight.Shape(), n.Weight, n.Bias, n.Eps).Permute(0, 3, 1, 2)
}

const convNeXtEps = 1e-6

// convNeXts are depths and widths by name: table 9 of the paper.
var convNeXts = map[string][2][4]int{
	"convnext_tiny":   {{3, 3, 9, 3}, {96, 192, 384, 768}},
	"convnext_small":  {{3, 3, 27, 3}, {96, 192, 384, 768}},
	"convnext_base":   {{3, 3, 27, 3}, {128, 256, 512, 1024}},
	"convnext_large":  {{3, 3, 27, 3}, {192, 384, 768, 1536}},
	"convnext_xlarge": {{3, 3, 27, 3}, {256, 512, 1024, 2048}},
}

// NewConvNeXt makes a network of four stages without stochastic depth, as the papers use it, in training mode. Weights
// start from a normal distribution of deviation 0.02, cut at ±2, biases from 0, γ from 1e-6. Options: nn.DType,
// nn.Device, nn.Generator, nn.NoInit.
func NewConvNeXt(depths, dims [4]int, numClasses int, opts ...nn.Option) *ConvNeXt {
	f := nn.FactoryOf("backbone.NewConvNeXt", opts)
	norm := func(c int) *channelNorm {
		l := nn.NewLayerNorm([]int{c}, layerNormOptions(opts)...)
		return &channelNorm{l.Weight, l.Bias, convNeXtEps}
	}
	m := &ConvNeXt{Stem: nn.Sequential{nn.NewConv2d(3, dims[0], 4, append([]nn.Option{nn.Stride(4)}, opts...)...), norm(dims[0])}}
	for s, depth := range depths {
		c := dims[s]
		stage := &ConvNeXtStage{}
		if s > 0 {
			stage.Downsample = nn.Sequential{norm(dims[s-1]), nn.NewConv2d(dims[s-1], c, 2, append([]nn.Option{nn.Stride(2)}, opts...)...)}
		}
		for range depth {
			gamma := torch.Full(torch.S(c), 1e-6, f.DType, f.Device).SetRequiresGrad(true)
			stage.Blocks = append(stage.Blocks, &ConvNeXtBlock{
				Gamma: gamma, ConvDW: nn.NewConv2d(c, c, 7, append([]nn.Option{nn.Padding(3), nn.Groups(c)}, opts...)...), Norm: nn.NewLayerNorm([]int{c}, layerNormOptions(opts)...),
				MLP: &ConvNeXtMLP{nn.NewLinear(c, 4*c, opts...), nn.NewLinear(4*c, c, opts...)},
			})
		}
		m.Stages = append(m.Stages, stage)
	}
	m.Top = &ConvNeXtHead{nn.NewLayerNorm([]int{dims[3]}, layerNormOptions(opts)...), nn.NewLinear(dims[3], numClasses, opts...)}
	truncated(m, f)
	return m
}

func layerNormOptions(opts []nn.Option) []nn.Option {
	return append([]nn.Option{nn.Eps(convNeXtEps)}, opts...)
}

// truncated draws weights from N(0, 0.02²) cut at ±2 and zeroes biases, of convolutions and linear layers.
func truncated(m any, f nn.Factory) {
	if f.NoInit {
		return
	}
	torch.NoGrad(func() {
		for _, l := range nn.Modules(m) {
			var w, b *torch.Tensor
			switch l := l.(type) {
			case *nn.Conv2d:
				w, b = l.Weight, l.Bias
			case *nn.Linear:
				w, b = l.Weight, l.Bias
			default:
				continue
			}
			nn.TruncNormal_(w, 0, 0.02, -2, 2, f.Generator)
			if b != nil {
				nn.Zeros_(b)
			}
		}
	})
}

// Forward keeps the shape [B, c, h, w].
func (b *ConvNeXtBlock) Forward(x *torch.Tensor) *torch.Tensor {
	y := b.Norm.Forward(b.ConvDW.Forward(x).Permute(0, 2, 3, 1)) // [B, h, w, c]
	y = b.MLP.FC2.Forward(b.MLP.FC1.Forward(y).Gelu("none")).Mul(b.Gamma)
	return y.Permute(0, 3, 1, 2).Add(x)
}

// FeatureMap is what the global average pool sees, [B, D, H/32, W/32].
func (m *ConvNeXt) FeatureMap(x *torch.Tensor) *torch.Tensor {
	x = m.Stem.Forward(x)
	for _, s := range m.Stages {
		if s.Downsample != nil {
			x = s.Downsample.Forward(x)
		}
		for _, b := range s.Blocks {
			x = b.Forward(x)
		}
	}
	return x
}

// Features are the pooled and normalised features, [B, D].
func (m *ConvNeXt) Features(x *torch.Tensor) *torch.Tensor {
	return m.Top.Norm.Forward(pool(m.FeatureMap(x)))
}

// Forward gives logits, [B, C].
func (m *ConvNeXt) Forward(x *torch.Tensor) *torch.Tensor {
	return m.Top.FC.Forward(m.Features(x))
}

// FeatureDim is the last width.
func (m *ConvNeXt) FeatureDim() int { return m.Top.FC.InFeatures }

// Head is head.fc.
func (m *ConvNeXt) Head() *nn.Linear { return m.Top.FC }

// HeadKey is "head.fc".
func (m *ConvNeXt) HeadKey() string { return "head.fc" }

// SetHead replaces head.fc.
func (m *ConvNeXt) SetHead(l *nn.Linear) { m.Top.FC = l }

// MeanPooled is false: the features are not the mean of the feature map.
func (*ConvNeXt) MeanPooled() bool { return false }
