package config

// contextTokens is the length of DualCoOp's contexts in the paper.
const contextTokens = 16

// resolveClip fills in the settings of models that are made of a CLIP, before the others.
func (c *Config) resolveClip() error {
	if m := c.Method.of(); m.Head == HeadDualCoOp {
		def(&c.Optim.Name, "sgd")
		def(&c.Optim.Momentum, 0.9)
		def(&c.Schedule.Name, "cosine")
	}
	if c.Model.Head != HeadDualCoOp {
		if c.Model.Context != 0 || c.Model.ClassContext {
			return wrong("context and class_context belong to --head dualcoop")
		}
		if c.Model.Backbone == BackboneClip && c.Model.Weights == "" {
			return wrong("--backbone clip wants --weights, a file or folder of a CLIP, or %q", BuiltinClip)
		}
		return nil
	}
	shapes := c.Data.Path == Shapes
	if c.Pseudo.Clip == "" && shapes {
		c.Pseudo.Clip = BuiltinClip
	}
	def(&c.Model.Context, contextTokens)
	switch {
	case c.Pseudo.Clip == "":
		return wrong("dualcoop learns prompts of an image-text model; give --clip MODEL")
	case c.Model.Weights != "" || c.Model.Backbone != "" && c.Model.Backbone != BackboneClip:
		return wrong("dualcoop has the towers of --clip; leave --backbone and --weights out")
	case c.Model.Mode == Frozen:
		return wrong("dualcoop looks at regions of the pictures; leave --frozen out")
	case c.Model.Context < 1 || c.Model.Context > 64:
		return wrong("context is %d, want 1 to 64 tokens", c.Model.Context)
	}
	c.Model.Backbone = BackboneClip
	if shapes {
		def(&c.Data.ImageSize, 64)
		def(&c.Schedule.Epochs, 10)
		def(&c.Optim.BatchSize, 64)
		def(&c.Optim.LR, 1e-4)
	} else {
		def(&c.Data.ImageSize, 448)
		def(&c.Schedule.Epochs, 50)
		def(&c.Optim.BatchSize, 32)
		def(&c.Optim.LR, 0.03*0.002)
		def(&c.Schedule.WarmupEpochs, 1)
	}
	return nil
}
