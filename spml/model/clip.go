package model

import (
	"fmt"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Names of what is made of an image-text model.
const (
	BackboneClip = "clip"    // CLIP's image tower with a linear head on its projected embedding (VLPL's ViT-L)
	BuiltinClip  = "builtin" // as a path: the small CLIP of this module, which knows drawn shapes only
)

// clipClassifier is CLIP's image tower with a linear head on its projected embedding, which is not normalised. It is a
// backbone.Model.
//
// Source: Xing et al. 2024 (VLPL), the row ViT-L.
type clipClassifier struct {
	Visual clip.ImageTower
	Fc     *nn.Linear

	config       clip.Config
	scale, shift *torch.Tensor
}

// NewClipClassifier gives the image tower of a CLIP a linear head for some classes and takes it over.
func NewClipClassifier(m *clip.CLIP, classes int, opts ...nn.Option) backbone.Model {
	b := &clipClassifier{Visual: m.Visual, Fc: nn.NewLinear(m.Config.EmbedDim, classes, opts...), config: m.Config}
	b.config.Text = nil
	nn.RequiresGrad(b, true)
	b.scale, b.shift = dualcoop.Renormalize(m.Config.Preprocess.Mean, m.Config.Preprocess.Std)
	return b
}

// ToDevice moves the model in place.
func (b *clipClassifier) ToDevice(d torch.Device) {
	nn.ToDevice(b, d)
	b.scale, b.shift = compute.To(b.scale, d), compute.To(b.shift, d)
}

func (b *clipClassifier) input(x *torch.Tensor) *torch.Tensor { return x.Mul(b.scale).Add(b.shift) }

func (b *clipClassifier) Forward(x *torch.Tensor) *torch.Tensor { return b.Fc.Forward(b.Features(x)) }

// FeatureMap is the map of the regions' embeddings.
func (b *clipClassifier) FeatureMap(x *torch.Tensor) *torch.Tensor {
	r := clip.Regions(b.Visual, b.input(x))
	s := b.config.Vision.Stride()
	return r.Slice(2, 1, r.Size(2), 1).Reshape(r.Size(0), r.Size(1), x.Size(2)/s, x.Size(3)/s)
}
func (b *clipClassifier) Features(x *torch.Tensor) *torch.Tensor { return b.Visual.Forward(b.input(x)) }
func (b *clipClassifier) FeatureDim() int                        { return b.config.EmbedDim }
func (b *clipClassifier) Head() *nn.Linear                       { return b.Fc }
func (b *clipClassifier) HeadKey() string                        { return "fc" }
func (b *clipClassifier) SetHead(l *nn.Linear)                   { b.Fc = l }
func (b *clipClassifier) MeanPooled() bool                       { return false }
func (b *clipClassifier) Spec() dualcoop.Spec {
	config := b.config
	return dualcoop.Spec{CLIP: &config}
}

// LoadClip reads a CLIP for training: a file, a folder, or BuiltinClip.
func LoadClip(path string) (*clip.CLIP, *clip.Loaded, error) {
	if path == BuiltinClip {
		return clip.Builtin()
	}
	return clip.Load(path, clip.LoadOptions{})
}

// openClipModel makes the model of a config.json, whose tensors are loaded next.
func openClipModel(mc Config) (backbone.Model, error) {
	if mc.CLIP == nil {
		return nil, fmt.Errorf("%w: config.json does not describe its CLIP", ErrData)
	}
	if mc.Head == HeadDualCoOp {
		return dualcoop.Blank(*mc.CLIP, mc.NumClasses, mc.NameTokens, dualcoop.Config{Context: mc.Context, PerClass: mc.ClassContext, ImageNet: true})
	}
	m, err := clip.New(*mc.CLIP)
	if err != nil {
		return nil, err
	}
	return NewClipClassifier(m, mc.NumClasses, nn.NoInit()), nil
}
