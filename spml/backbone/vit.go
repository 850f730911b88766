package backbone

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ViT is the vision transformer (Dosovitskiy et al. 2021, arXiv:2010.11929) with timm's keys; files of torchvision load
// too, for any size of image. Its features are the class token after the last normalisation.
//
// DINOv2's (Oquab et al. 2023, arXiv:2304.07193) and SigLIP's image towers (Zhai et al. 2023, arXiv:2303.15343) are
// ViTs too: the one has a factor behind each branch, the other no class token, so that its features are what a query of
// its own finds among the patches. Their files come from their authors, timm, Hugging Face and open_clip.
type ViT struct {
	ClassToken *torch.Tensor `torch:"cls_token"` // [1, 1, D]; nil in SigLIP
	Position   *torch.Tensor `torch:"pos_embed"` // [1, 1 + g², D], or [1, g², D] without a class token
	Patch      *vitPatch     `torch:"patch_embed"`
	Blocks     []*ViTBlock   `torch:"blocks"`
	Norm       *nn.LayerNorm `torch:"norm"`
	Pool       *ViTPool      `torch:"attn_pool"` // nil but in SigLIP
	Classifier *nn.Linear    `torch:"head"`

	bare bool      // published without a classifier
	gelu string    // "none" or "tanh", the approximation
	from *rescaled // of the input; nil: as it is
}

type vitPatch struct {
	Proj *nn.Conv2d `torch:"proj"`
}

// ViTBlock is x + g₁·attention(LN(x)), then x + g₂·MLP(LN(x)).
type ViTBlock struct {
	Norm1 *nn.LayerNorm `torch:"norm1"`
	Attn  *ViTAttention `torch:"attn"`
	LS1   *LayerScale   `torch:"ls1"` // nil: 1
	Norm2 *nn.LayerNorm `torch:"norm2"`
	MLP   *ConvNeXtMLP  `torch:"mlp"`
	LS2   *LayerScale   `torch:"ls2"` // nil: 1
}

// LayerScale is a factor for each channel.
type LayerScale struct {
	Gamma *torch.Tensor // [D]
}

// scale is x times the factors.
func (l *LayerScale) scale(x *torch.Tensor) *torch.Tensor {
	if l == nil {
		return x
	}
	return x.Mul(l.Gamma)
}

// ViTPool is attention of one learned query to all tokens, then x + MLP(LN(x)).
type ViTPool struct {
	Latent *torch.Tensor // [1, 1, D]
	Q      *nn.Linear    `torch:"q"`  // [D, D]
	KV     *nn.Linear    `torch:"kv"` // [2D, D]
	Proj   *nn.Linear    `torch:"proj"`
	Norm   *nn.LayerNorm `torch:"norm"`
	MLP    *ConvNeXtMLP  `torch:"mlp"`

	NumHeads int
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

	Hidden     int  // of the MLP; 0 = 4·Dim
	LayerScale bool // DINOv2's factors
	Pool       bool // SigLIP: no class token, a learned query pools; input in [-1, 1], GELU by tanh
}

// viTs are the sizes by name.
var viTs = map[string]ViTConfig{
	"vit_small_patch16": {ImageSize: 224, PatchSize: 16, Dim: 384, Depth: 12, NumHeads: 6},
	"vit_base_patch16":  {ImageSize: 224, PatchSize: 16, Dim: 768, Depth: 12, NumHeads: 12},
	"vit_base_patch32":  {ImageSize: 224, PatchSize: 32, Dim: 768, Depth: 12, NumHeads: 12},
	"vit_large_patch16": {ImageSize: 224, PatchSize: 16, Dim: 1024, Depth: 24, NumHeads: 16},

	"vit_small_patch14_dinov2": {ImageSize: 518, PatchSize: 14, Dim: 384, Depth: 12, NumHeads: 6, LayerScale: true},
	"vit_base_patch14_dinov2":  {ImageSize: 518, PatchSize: 14, Dim: 768, Depth: 12, NumHeads: 12, LayerScale: true},
	"vit_large_patch14_dinov2": {ImageSize: 518, PatchSize: 14, Dim: 1024, Depth: 24, NumHeads: 16, LayerScale: true},

	"vit_base_patch16_siglip":  {ImageSize: 224, PatchSize: 16, Dim: 768, Depth: 12, NumHeads: 12, Pool: true},
	"vit_large_patch16_siglip": {ImageSize: 256, PatchSize: 16, Dim: 1024, Depth: 24, NumHeads: 16, Pool: true},
	"vit_so400m_patch14_siglip": {ImageSize: 224, PatchSize: 14, Dim: 1152, Depth: 27, NumHeads: 16, Hidden: 4304,
		Pool: true},
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
	hidden := c.Hidden
	if hidden == 0 {
		hidden = 4 * c.Dim
	}
	mlp := func() *ConvNeXtMLP {
		return &ConvNeXtMLP{nn.NewLinear(c.Dim, hidden, opts...), nn.NewLinear(hidden, c.Dim, opts...)}
	}
	factors := func() *LayerScale {
		if !c.LayerScale {
			return nil
		}
		return &LayerScale{torch.Full(torch.S(c.Dim), 1e-5, f.DType, f.Device).SetRequiresGrad(true)}
	}
	m := &ViT{
		ClassToken: zeros(1, 1, c.Dim), Position: zeros(1, 1+g*g, c.Dim), bare: c.LayerScale || c.Pool, gelu: "none",
		Patch: &vitPatch{nn.NewConv2d(3, c.Dim, c.PatchSize, append([]nn.Option{nn.Stride(c.PatchSize)}, opts...)...)},
	}
	for range c.Depth {
		m.Blocks = append(m.Blocks, &ViTBlock{
			Norm1: nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...), Norm2: nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...),
			Attn: &ViTAttention{nn.NewLinear(c.Dim, 3*c.Dim, opts...), nn.NewLinear(c.Dim, c.Dim, opts...), c.NumHeads},
			MLP:  mlp(), LS1: factors(), LS2: factors(),
		})
	}
	if c.Pool {
		m.ClassToken, m.Position, m.gelu = nil, zeros(1, g*g, c.Dim), "tanh"
		m.from = &rescaled{}
		m.Pool = &ViTPool{
			zeros(1, 1, c.Dim), nn.NewLinear(c.Dim, c.Dim, opts...), nn.NewLinear(c.Dim, 2*c.Dim, opts...),
			nn.NewLinear(c.Dim, c.Dim, opts...), nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...), mlp(), c.NumHeads,
		}
	}
	m.Norm, m.Classifier = nn.NewLayerNorm([]int{c.Dim}, layerNormOptions(opts)...), nn.NewLinear(c.Dim, numClasses, opts...)
	truncated(m, f)
	if !f.NoInit {
		torch.NoGrad(func() {
			nn.TruncNormal_(m.Position, 0, 0.02, -2, 2, f.Generator)
			if c.Pool {
				nn.TruncNormal_(m.Pool.Latent, 0, 0.02, -2, 2, f.Generator)
			} else {
				nn.TruncNormal_(m.ClassToken, 0, 0.02, -2, 2, f.Generator)
			}
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

// Forward pools tokens [B, N, D] to [B, D].
func (p *ViTPool) Forward(t *torch.Tensor, gelu string) *torch.Tensor {
	d := t.Size(2)
	heads := func(x *torch.Tensor) *torch.Tensor { // [B, heads, N, D/heads]
		return x.Reshape(-1, x.Size(1), p.NumHeads, d/p.NumHeads).Transpose(1, 2)
	}
	q := heads(p.Q.Forward(p.Latent.ExpandAs(t.Slice(1, 0, 1, 1))))
	kv := p.KV.Forward(t)
	y := torch.ScaledDotProductAttention(q, heads(kv.Slice(2, 0, d, 1)), heads(kv.Slice(2, d, 2*d, 1)), nil, 0, false)
	y = p.Proj.Forward(y.Transpose(1, 2).Reshape(-1, 1, d))
	y = y.Add(p.MLP.FC2.Forward(p.MLP.FC1.Forward(p.Norm.Forward(y)).Gelu(gelu)))
	return y.Select(1, 0)
}

// rescaled turns images that were normalised by ImageNet's numbers, as every backbone here takes them, into those of
// the range [-1, 1].
type rescaled struct{}

// numbers are a factor and what is added then, for each channel.
func (*rescaled) numbers() (scale, shift []float64) {
	scale, shift = make([]float64, 3), make([]float64, 3)
	for i := range scale {
		scale[i], shift[i] = 2*float64(pixel.ImageNetStd[i]), 2*float64(pixel.ImageNetMean[i])-1
	}
	return scale, shift
}

func (r *rescaled) of(x *torch.Tensor) *torch.Tensor {
	scale, shift := r.numbers()
	to := func(v []float64) *torch.Tensor {
		return torch.FromSlice(v, 3, 1, 1).ToDeviceDType(x.Device(), x.DType())
	}
	return x.Mul(to(scale)).Add(to(shift))
}

// Tokens are the class token, where there is one, and the patches after the last normalisation, [B, 1 + h·w, D]. The
// position table is resized where the input has another size.
func (m *ViT) Tokens(x *torch.Tensor) *torch.Tensor {
	if m.from != nil {
		x = m.from.of(x)
	}
	p := m.Patch.Proj.Forward(x) // [B, D, h, w]
	h, w := p.Size(2), p.Size(3)
	t := p.Flatten(2, -1).Transpose(1, 2)
	if m.ClassToken != nil {
		// a trace is for any batch: no size of it is read
		t = torch.Cat([]*torch.Tensor{m.ClassToken.ExpandAs(t.Slice(1, 0, 1, 1)), t}, 1)
	}
	t = t.Add(m.positions(h, w))
	for _, k := range m.Blocks {
		t = t.Add(k.LS1.scale(k.Attn.Forward(k.Norm1.Forward(t))))
		t = t.Add(k.LS2.scale(k.MLP.FC2.Forward(k.MLP.FC1.Forward(k.Norm2.Forward(t)).Gelu(m.gelu))))
	}
	return m.Norm.Forward(t)
}

// prefix is the number of tokens before the patches.
func (m *ViT) prefix() int {
	if m.ClassToken == nil {
		return 0
	}
	return 1
}

// positions is the position table for h × w patches: bicubic with antialiasing, as timm resizes it.
func (m *ViT) positions(h, w int) *torch.Tensor {
	first := m.prefix()
	n, d := m.Position.Size(1)-first, m.Position.Size(2)
	g := int(math.Sqrt(float64(n)))
	if h == g && w == g {
		return m.Position
	}
	grid := m.Position.Slice(1, first, first+n, 1).Reshape(1, g, g, d).Permute(0, 3, 1, 2)
	grid = nn.Interpolate(grid, nn.Interpolation{Size: []int{h, w}, Mode: "bicubic", Antialias: true})
	grid = grid.Permute(0, 2, 3, 1).Reshape(1, h*w, d)
	if first == 0 {
		return grid
	}
	return torch.Cat([]*torch.Tensor{m.Position.Slice(1, 0, 1, 1), grid}, 1)
}

// Fit gives a model the form of a file's tensors where that may differ: a ViT's position table gets the size of the
// file's, for images of any size. The table is a new parameter then.
func Fit(m Model, sd nn.StateDict) {
	v, ok := m.(*ViT)
	if !ok {
		return
	}
	t := sd["pos_embed"]
	if t == nil || t.Dim() != 3 || t.Size(0) != 1 || t.Size(2) != v.Position.Size(2) || t.Size(1) == v.Position.Size(1) {
		return
	}
	n := t.Size(1) - v.prefix()
	if g := int(math.Round(math.Sqrt(float64(n)))); n < 1 || g*g != n {
		return
	}
	v.Position = torch.Zeros(t.Shape(), v.Position.DType(), v.Position.Device()).SetRequiresGrad(true)
}

// FeatureMap are the patches' tokens by place, [B, D, H/patch, W/patch].
func (m *ViT) FeatureMap(x *torch.Tensor) *torch.Tensor {
	p := m.Patch.Proj.KernelSize
	h, w := x.Size(2)/p[0], x.Size(3)/p[1]
	t := m.Tokens(x)
	return t.Slice(1, m.prefix(), t.Size(1), 1).Transpose(1, 2).Reshape(x.Size(0), m.FeatureDim(), h, w)
}

// Features are the class token's, or those that SigLIP's query finds, [B, D].
func (m *ViT) Features(x *torch.Tensor) *torch.Tensor {
	t := m.Tokens(x)
	if m.Pool != nil {
		return m.Pool.Forward(t, m.gelu)
	}
	return t.Select(1, 0)
}

// Forward gives logits, [B, C].
func (m *ViT) Forward(x *torch.Tensor) *torch.Tensor { return m.Classifier.Forward(m.Features(x)) }

// FeatureDim is D.
func (m *ViT) FeatureDim() int { return m.Position.Size(2) }

// Head is head.
func (m *ViT) Head() *nn.Linear { return m.Classifier }

// HeadKey is "head".
func (m *ViT) HeadKey() string { return "head" }

// SetHead replaces head.
func (m *ViT) SetHead(l *nn.Linear) { m.Classifier = l }

// MeanPooled is false: the features are not the mean of the feature map.
func (*ViT) MeanPooled() bool { return false }
