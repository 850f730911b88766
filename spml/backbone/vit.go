package backbone

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ViT is the vision transformer (Dosovitskiy et al. 2021, arXiv:2010.11929) with timm's keys; files of torchvision load
// too. Its features are the class token after the last normalisation.
type ViT struct {
	ClassToken *torch.Tensor `torch:"cls_token"` // [1, 1, D]
	Position   *torch.Tensor `torch:"pos_embed"` // [1, 1 + g², D]
	Patch      *vitPatch     `torch:"patch_embed"`
	Blocks     []*ViTBlock   `torch:"blocks"`
	Norm       *nn.LayerNorm `torch:"norm"`
	Classifier *nn.Linear    `torch:"head"`
}

type vitPatch struct {
	Proj *nn.Conv2d `torch:"proj"`
}

// ViTBlock is x + attention(LN(x)), then x + MLP(LN(x)).
type ViTBlock struct {
	Norm1 *nn.LayerNorm `torch:"norm1"`
	Attn  *ViTAttention `torch:"attn"`
	Norm2 *nn.LayerNorm `torch:"norm2"`
	MLP   *ConvNeXtMLP  `torch:"mlp"`
}

// ViTAttention is self-attention with one matrix for queries, keys and values.
type ViTAttention struct {
	QKV  *nn.Linear `torch:"qkv"`  // [3D, D]
	Proj *nn.Linear `torch:"proj"` // [D, D]

	NumHeads int
}

// ViTConfig is the size of a ViT.
type ViTConfig struct {
	ImageSize, PatchSize int // pixels; ImageSize is that of the position table
	Dim, Depth, NumHeads int
}

// viTs are the sizes by name.
var viTs = map[string]ViTConfig{
	"vit_small_patch16": {224, 16, 384, 12, 6},
	"vit_base_patch16":  {224, 16, 768, 12, 12},
	"vit_base_patch32":  {224, 32, 768, 12, 12},
	"vit_large_patch16": {224, 16, 1024, 24, 16},
}

// NewViT makes a transformer in training mode, without dropout. Weights start from a normal distribution of deviation
// 0.02, cut at ±2, biases from 0. Options: nn.DType, nn.Device, nn.Generator, nn.NoInit.
func NewViT(c ViTConfig, numClasses int, opts ...nn.Option) *ViT {
	f := nn.FactoryOf("backbone.NewViT", opts)
	g := c.ImageSize / c.PatchSize
	if c.Dim < 1 || c.NumHeads < 1 || c.Dim%c.NumHeads != 0 || g < 1 {
		panic(&torch.Error{Kind: torch.KindValue, Op: "backbone.NewViT", Msg: fmt.Sprintf("%d values in %d heads, %d patches a side", c.Dim, c.NumHeads, g)})
	}
	zeros := func(shape ...int) *torch.Tensor {
		return torch.Zeros(shape, f.DType, f.Device).SetRequiresGrad(true)
	}
	m := &ViT{
		ClassToken: zeros(1, 1, c.Dim), Position: zeros(1, 1+g*g, c.Dim),
		Patch: &vitPatch{nn.NewConv2d(3, c.Dim, c.PatchSize, append([]nn.Option{nn.Stride(c.PatchSize)}, opts...)...)},
	}
	for range c.Depth {
		m.Blocks = append(m.Blocks, &ViTBlock{
			Norm1: nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...), Norm2: nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...),
			Attn: &ViTAttention{nn.NewLinear(c.Dim, 3*c.Dim, opts...), nn.NewLinear(c.Dim, c.Dim, opts...), c.NumHeads},
			MLP:  &ConvNeXtMLP{nn.NewLinear(c.Dim, 4*c.Dim, opts...), nn.NewLinear(4*c.Dim, c.Dim, opts...)},
		})
	}
	m.Norm, m.Classifier = nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...), nn.NewLinear(c.Dim, numClasses, opts...)
	truncated(m, f)
	if !f.NoInit {
		torch.NoGrad(func() {
			nn.TruncNormal_(m.Position, 0, 0.02, -2, 2, f.Generator)
			nn.TruncNormal_(m.ClassToken, 0, 0.02, -2, 2, f.Generator)
		})
	}
	return m
}

// Forward keeps the shape [B, N, D].
func (a *ViTAttention) Forward(x *torch.Tensor) *torch.Tensor {
	n, d := x.Size(1), x.Size(2)
	qkv := a.QKV.Forward(x).Reshape(-1, n, 3, a.NumHeads, d/a.NumHeads).Permute(2, 0, 3, 1, 4) // [3, B, heads, N, D/heads]
	y := torch.ScaledDotProductAttention(qkv.Select(0, 0), qkv.Select(0, 1), qkv.Select(0, 2), nil, 0, false)
	return a.Proj.Forward(y.Transpose(1, 2).Reshape(-1, n, d))
}

// Tokens are the class token and the patches after the last normalisation, [B, 1 + h·w, D]. The position table is
// resized where the input has another size.
func (m *ViT) Tokens(x *torch.Tensor) *torch.Tensor {
	p := m.Patch.Proj.Forward(x) // [B, D, h, w]
	h, w := p.Size(2), p.Size(3)
	patches := p.Flatten(2, -1).Transpose(1, 2)
	t := torch.Cat([]*torch.Tensor{m.ClassToken.ExpandAs(patches.Slice(1, 0, 1, 1)), patches}, 1) // a trace is for any batch: no size of it is read
	t = t.Add(m.positions(h, w))
	for _, k := range m.Blocks {
		t = t.Add(k.Attn.Forward(k.Norm1.Forward(t)))
		t = t.Add(k.MLP.FC2.Forward(k.MLP.FC1.Forward(k.Norm2.Forward(t)).Gelu("none")))
	}
	return m.Norm.Forward(t)
}

// positions is the position table for h × w patches: bicubic with antialiasing, as timm resizes it.
func (m *ViT) positions(h, w int) *torch.Tensor {
	n, d := m.Position.Size(1)-1, m.Position.Size(2)
	g := int(math.Sqrt(float64(n)))
	if h == g && w == g {
		return m.Position
	}
	grid := m.Position.Slice(1, 1, n+1, 1).Reshape(1, g, g, d).Permute(0, 3, 1, 2)
	grid = nn.Interpolate(grid, nn.Interpolation{Size: []int{h, w}, Mode: "bicubic", Antialias: true})
	return torch.Cat([]*torch.Tensor{m.Position.Slice(1, 0, 1, 1), grid.Permute(0, 2, 3, 1).Reshape(1, h*w, d)}, 1)
}

// FeatureMap are the patches' tokens by place, [B, D, H/patch, W/patch].
func (m *ViT) FeatureMap(x *torch.Tensor) *torch.Tensor {
	p := m.Patch.Proj.KernelSize
	h, w := x.Size(2)/p[0], x.Size(3)/p[1]
	t := m.Tokens(x)
	return t.Slice(1, 1, t.Size(1), 1).Transpose(1, 2).Reshape(x.Size(0), m.FeatureDim(), h, w)
}

// Features are the class token's, [B, D].
func (m *ViT) Features(x *torch.Tensor) *torch.Tensor { return m.Tokens(x).Select(1, 0) }

// Forward gives logits, [B, C].
func (m *ViT) Forward(x *torch.Tensor) *torch.Tensor { return m.Classifier.Forward(m.Features(x)) }

// FeatureDim is D.
func (m *ViT) FeatureDim() int { return m.ClassToken.Size(2) }

// Head is head.
func (m *ViT) Head() *nn.Linear { return m.Classifier }

// HeadKey is "head".
func (m *ViT) HeadKey() string { return "head" }

// SetHead replaces head.
func (m *ViT) SetHead(l *nn.Linear) { m.Classifier = l }

// MeanPooled is false: the features are not the mean of the feature map.
func (*ViT) MeanPooled() bool { return false }
