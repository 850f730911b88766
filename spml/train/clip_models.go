package train

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Names of what an image-text model is trained as.
const (
	BackboneClip = model.BackboneClip // Config.Backbone
	HeadDualCoOp = model.HeadDualCoOp // Config.Head
	DualCoOp     = "dualcoop"         // Config.Method: that head with the paper's loss
)

// contextTokens is the length of DualCoOp's contexts in the paper.
const contextTokens = 16

// resolveClip fills in the settings of models that are made of a CLIP, before the others.
func (c *Config) resolveClip() error {
	fail := func(format string, a ...any) error { return &ConfigError{Msg: fmt.Sprintf(format, a...)} }
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

// clipModel is the model of a run whose backbone is a CLIP.
func (n *network) clipModel() (backbone.Model, error) {
	if n.saved != nil {
		return model.Blank(*n.saved)
	}
	path := n.c.Weights
	if n.c.Head == HeadDualCoOp {
		path = n.c.Clip
	}
	m, loaded, err := model.LoadClip(path)
	if err != nil {
		return nil, err
	}
	n.ev.note(loaded.String())
	if m.Visual == nil {
		return nil, fmt.Errorf("%w: %s has no image tower", ErrData, path)
	}
	if s := m.Config.Vision.Stride(); n.size < s {
		return nil, &ConfigError{Msg: fmt.Sprintf("images of %d pixels are smaller than the %d of a region of %s", n.size, s, path)}
	}
	if n.c.Head == HeadDualCoOp {
		tok := loaded.Tokenizer
		if tok == nil {
			tok = tokenizer.Default()
		}
		names, err := n.c.prompts()
		switch {
		case err != nil:
			return nil, err
		case names == nil:
			names = n.ds.Classes
		case len(names) != n.ds.C():
			return nil, &ConfigError{Msg: fmt.Sprintf("%s has %d texts and %s %d classes", n.c.ClassNames, len(names),
				n.ds.Name, n.ds.C())}
		}
		return dualcoop.New(m, tok, names, dualcoop.Config{Context: n.c.Context, PerClass: n.c.ClassContext,
			Generator: n.torch, ImageNet: true})
	}
	var b backbone.Model
	err = torch.Try(func() { b = model.NewClipClassifier(m, n.ds.C(), nn.Generator(n.torch)) })
	return b, err
}

// knownBackbone says whether a backbone can be trained.
func knownBackbone(name string) bool {
	return name == BackboneClip || slices.Contains(backbone.Names(), name)
}
