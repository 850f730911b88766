package train

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Names of what an image-text model is trained as.
const (
	BackboneClip = "clip"     // Config.Backbone: CLIP's image tower with a linear head on its projected embedding (VLPL's ViT-L)
	HeadDualCoOp = "dualcoop" // Config.Head: learned prompts through a frozen CLIP
	DualCoOp     = "dualcoop" // Config.Method: that head with the paper's loss
)

// contextTokens is the length of DualCoOp's contexts in the paper.
const contextTokens = 16

// resolveClip fills in the settings of models that are made of a CLIP, before the others.
func (c *Config) resolveClip() error {
	fail := func(format string, a ...any) error { return &ConfigError{fmt.Sprintf(format, a...)} }
	if c.Method == DualCoOp {
		c.Method, c.Head = "asl", HeadDualCoOp
		params := map[string]float64{"gamma_neg": 2, "gamma_pos": 1, "margin": 0.05}
		for k, v := range c.Params {
			params[k] = v
		}
		c.Params = params
		def(&c.Form, "code")
		def(&c.Optimizer, "sgd")
		def(&c.Momentum, 0.9)
		def(&c.Schedule, "cosine")
	}
	if c.Head != HeadDualCoOp {
		if c.Context != 0 || c.ClassContext {
			return fail("context and class_context belong to --head dualcoop")
		}
		if c.Backbone == BackboneClip && c.Weights == "" {
			return fail("--backbone clip wants --weights, a file or folder of a CLIP, or %q", BuiltinClip)
		}
		return nil
	}
	shapes := c.Data == ShapesName
	if c.Clip == "" && shapes {
		c.Clip = BuiltinClip
	}
	def(&c.Context, contextTokens)
	switch {
	case c.Clip == "":
		return fail("dualcoop learns prompts of an image-text model; give --clip MODEL")
	case c.Weights != "" || c.Backbone != "" && c.Backbone != BackboneClip:
		return fail("dualcoop has the towers of --clip; leave --backbone and --weights out")
	case c.Mode == Frozen:
		return fail("dualcoop looks at regions of the pictures; leave --frozen out")
	case c.Context < 1 || c.Context > 64:
		return fail("context is %d, want 1 to 64 tokens", c.Context)
	}
	c.Backbone = BackboneClip
	if shapes {
		def(&c.ImageSize, 64)
		def(&c.Epochs, 10)
		def(&c.BatchSize, 64)
		def(&c.LR, 1e-4)
	} else {
		def(&c.ImageSize, 448)
		def(&c.Epochs, 50)
		def(&c.BatchSize, 32)
		def(&c.LR, 0.03*0.002)
		def(&c.WarmupEpochs, 1)
	}
	return nil
}

// clipClassifier is CLIP's image tower with a linear head on its projected embedding, which is not normalised. It is a backbone.Model.
//
// Source: Xing et al. 2024 (VLPL), the row ViT-L.
type clipClassifier struct {
	Visual clip.ImageTower
	Fc     *nn.Linear

	config       clip.Config
	scale, shift *torch.Tensor
}

func newClipClassifier(m *clip.CLIP, classes int, opts ...nn.Option) *clipClassifier {
	b := &clipClassifier{Visual: m.Visual, Fc: nn.NewLinear(m.Config.EmbedDim, classes, opts...), config: m.Config}
	b.config.Text = nil
	nn.RequiresGrad(b, true)
	b.scale, b.shift = dualcoop.Renormalize(m.Config.Preprocess.Mean, m.Config.Preprocess.Std)
	return b
}

// ToDevice moves the model in place.
func (b *clipClassifier) ToDevice(d torch.Device) {
	nn.ToDevice(b, d)
	b.scale, b.shift = moved(b.scale, d), moved(b.shift, d)
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

// loadClip reads a CLIP for training.
func loadClip(path string) (*clip.CLIP, *clip.Loaded, error) {
	if path == BuiltinClip {
		return clip.Builtin()
	}
	return clip.Load(path, clip.LoadOptions{})
}

// clipModel is the model of a run whose backbone is a CLIP.
func (n *network) clipModel() (backbone.Model, error) {
	if n.saved != nil {
		return openClipModel(*n.saved)
	}
	path := n.c.Weights
	if n.c.Head == HeadDualCoOp {
		path = n.c.Clip
	}
	m, loaded, err := loadClip(path)
	if err != nil {
		return nil, err
	}
	n.ev.note(loaded.String())
	if m.Visual == nil {
		return nil, fmt.Errorf("%w: %s has no image tower", ErrData, path)
	}
	if s := m.Config.Vision.Stride(); n.size < s {
		return nil, &ConfigError{fmt.Sprintf("images of %d pixels are smaller than the %d of a region of %s", n.size, s, path)}
	}
	if n.c.Head == HeadDualCoOp {
		tok := loaded.Tokenizer
		if tok == nil {
			tok = tokenizer.Default()
		}
		return dualcoop.New(m, tok, n.ds.Classes, dualcoop.Config{Context: n.c.Context, PerClass: n.c.ClassContext, Generator: n.torch, ImageNet: true})
	}
	var b backbone.Model
	err = torch.Try(func() { b = newClipClassifier(m, n.ds.C(), nn.Generator(n.torch)) })
	return b, err
}

// clipHead is what config.json says of a model that is made of a CLIP.
type clipHead struct {
	CLIP         *clip.Config `json:"clip,omitempty"`
	Context      int          `json:"context,omitempty"`
	ClassContext bool         `json:"class_context,omitempty"`
	NameTokens   int          `json:"name_tokens,omitempty"` // of the longest name, start and end included
}

func clipHeadOf(m backbone.Model, c *Config) clipHead {
	switch m := m.(type) {
	case *dualcoop.Model:
		config := m.CLIP.Config
		return clipHead{CLIP: &config, Context: c.Context, ClassContext: c.ClassContext, NameTokens: m.Tokens.Size(1)}
	case *clipClassifier:
		config := m.config
		return clipHead{CLIP: &config}
	}
	return clipHead{}
}

// openClipModel makes the model of a config.json, whose tensors are loaded next.
func openClipModel(mc ModelConfig) (backbone.Model, error) {
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
	return newClipClassifier(m, mc.NumClasses, nn.NoInit()), nil
}

// knownBackbone says whether a backbone can be trained.
func knownBackbone(name string) bool {
	return name == BackboneClip || slices.Contains(backbone.Names(), name)
}
