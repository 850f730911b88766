package config

import (
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
)

// Ways of training (Model.Mode).
const (
	FineTune = "fine-tune" // backbone and head
	Frozen   = "frozen"    // a linear head on features that are computed once
)

// What batch normalisation does while a backbone is fine-tuned (Model.BatchNorm).
const (
	BatchNormAuto   = "auto"   // frozen where the weights have it folded in, else live
	BatchNormLive   = "live"   // batch statistics, as PyTorch's train()
	BatchNormFrozen = "frozen" // running statistics; gain and bias are trained
	// BatchNormConstant keeps gain and bias too (torchvision's FrozenBatchNorm2d) and folds them into the convolutions.
	BatchNormConstant = "constant"
)

// Gradient checkpointing of a run (Model.GradCheckpointing).
const (
	CheckpointNone = "none"
	CheckpointHead = "head" // a decoder's layers
	CheckpointAll  = "all"  // and the blocks of a ResNet
)

// Heads that a run can have (Model.Head), beside those that model.RegisterHead adds.
const (
	HeadLinear    = model.HeadLinear
	HeadDecoder   = model.HeadDecoder
	HeadMLDecoder = model.HeadMLDecoder
	HeadBoostLU   = model.HeadBoostLU
	HeadDualCoOp  = model.HeadDualCoOp
)

// BackboneClip as Model.Backbone is the image tower of a CLIP.
const BackboneClip = model.BackboneClip

// OwnFeatures alone in Model.Features are the features that the data set itself holds.
const OwnFeatures = "data"

// Model is the network: what it is made of, what it starts from, what of it is trained.
type Model struct {
	Backbone string `yaml:"backbone"`
	Weights  string `yaml:"weights,omitempty"`
	// Features are .npy files with a row of features for each image, for Frozen, or OwnFeatures. A .txt file of the same
	// name beside one, an image name a line, says which rows they are; without it they are the data set's, in its order.
	Features Paths `yaml:"features,omitempty"`
	// StrongFeatures are the same of a strongly augmented view, for methods that compare two.
	StrongFeatures Paths  `yaml:"strong_features,omitempty"`
	Mode           string `yaml:"mode"`
	// Head is what looks at the backbone's feature map.
	Head         string `yaml:"head"`
	Context      int    `yaml:"context,omitempty" range:"0 76"`
	ClassContext bool   `yaml:"class_context,omitempty"`
	// Boost is the factor of positive positions of class maps, of --head boostlu. With BoostEval it applies when the model
	// is used, not while it is trained.
	Boost      float64 `yaml:"boost,omitempty" range:"0 1e6"`
	BoostEval  bool    `yaml:"boost_eval,omitempty"`
	DecoderDim int     `yaml:"decoder_dim,omitempty" range:"0 8192"`
	// Init is a run directory (or its model folder) whose weights the run starts from, as far as names and shapes fit.
	Init              string `yaml:"init,omitempty"`
	BatchNorm         string `yaml:"batch_norm"`
	FreezeAt          int    `yaml:"freeze_at,omitempty" range:"0 100"`
	GradCheckpointing string `yaml:"grad_checkpointing,omitempty"`
}

// Paths are files. Their text is them, joined by commas.
type Paths []string

// UnmarshalText reads the text form.
func (p *Paths) UnmarshalText(text []byte) error {
	*p = nil
	if err := checkText("a list of files", string(text), mostList); err != nil {
		return err
	}
	if len(text) > 0 {
		*p = strings.Split(string(text), ",")
	}
	return nil
}

// String is the text form.
func (p Paths) String() string { return strings.Join(p, ",") }

// MarshalText is String, for files.
func (p Paths) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Own says whether they are not files but what the data set holds.
func (p Paths) Own() bool { return len(p) == 1 && p[0] == OwnFeatures }

// WeightsFile is the file of the backbone's weights; a CLIP may be a folder, which gives "".
func (m Model) WeightsFile() string {
	if m.Backbone == BackboneClip {
		return singleFile(m.Weights)
	}
	return m.Weights
}

func (m *Model) resolve(c *Config) error {
	if c.Data.Path == Shapes && m.Backbone == "" && m.Weights == "" {
		m.Backbone = "small_cnn"
	}
	def(&m.Backbone, "mobilenet_v2")
	if m.Backbone != BackboneClip && !slices.Contains(backbone.Names(), m.Backbone) {
		return wrong(
			"no backbone is called %q; there are %s and %s",
			m.Backbone,
			strings.Join(backbone.Names(), ", "),
			BackboneClip,
		)
	}
	def(&m.Mode, FineTune)
	switch m.Mode {
	case FineTune:
		if len(m.Features) > 0 {
			return wrong("features are for --frozen; fine-tuning reads the images")
		}
	case Frozen:
		if m.Weights == "" && len(m.Features) == 0 {
			return wrong(
				"--frozen needs --weights FILE, --features FILE.npy with stored features, or --features data for those of the " +
					"data set",
			)
		}
	default:
		return wrong("mode %q is none of %s, %s", m.Mode, FineTune, Frozen)
	}
	def(&m.BatchNorm, BatchNormAuto)
	return oneOf("batch_norm", m.BatchNorm, BatchNormAuto, BatchNormLive, BatchNormFrozen, BatchNormConstant)
}

// HeadSpec is the head of a run; a linear one needs no words.
func (c Config) HeadSpec() model.HeadSpec {
	if c.Model.Head == HeadLinear {
		return model.HeadSpec{}
	}
	h := model.HeadSpec{Head: c.Model.Head, Dim: c.Model.DecoderDim}
	switch c.Model.Head {
	case HeadBoostLU:
		h.Boost, h.BoostEval = c.Model.Boost, c.Model.BoostEval
	case HeadDecoder:
		h.Projection = decoder.None
		m := c.Method.of()
		if m.Needs(loss.Latents) {
			h.Latent, h.LatentBeta = c.Method.LatentDim, m.Needs(loss.BetaParameters)
		}
		if c.Method.QueueSize != 0 { // the embeddings are contrasted
			h.Projection = m.Projection
		}
	}
	return h
}

// resolveHead fills in and checks what depends on head and method together: the head, the second view, the stages and
// the queue.
func (c *Config) resolveHead(m *method.Method) error {
	frozen, embeds := c.Model.Mode == Frozen, m.Needs(loss.Embeddings)
	if embeds && !frozen {
		def(&c.Model.Head, HeadDecoder)
		def(&c.Method.QueueSize, 512)
	}
	if m.First != "" && !frozen {
		def(&c.Stages.Count, 2)
	}
	twoViews := m.Needs(loss.StrongView) && !frozen
	if twoViews {
		def(&c.Method.StrongView, m.SecondView(c.Method.Form))
	}
	def(&c.Model.Head, HeadLinear)
	def(&c.Model.GradCheckpointing, CheckpointNone)
	if err := c.checkMemory(); err != nil {
		return err
	}
	if err := c.checkHead(m); err != nil {
		return err
	}
	s := c.Stages
	switch {
	case m.Mask != nil && frozen:
		return wrong("%s masks photos by the network's class maps, which --frozen does not have: leave it out", m.ID)
	case embeds && c.Model.Head != HeadDecoder:
		return wrong(
			"%s contrasts label-wise embeddings, which the label-wise decoder gives: fine-tune with --head decoder",
			m.ID,
		)
	case !embeds && c.Method.QueueSize != 0 || m.First == "" && s.Count > 1:
		return wrong("queue_size and stages belong to lac, not to %s", m.ID)
	case twoViews && strongViews[c.Method.StrongView] == nil:
		return wrong("no strong view is called %q; there are %s", c.Method.StrongView, strings.Join(StrongViews(), ", "))
	case !twoViews && c.Method.StrongView != "":
		return wrong(
			"strong_view is for methods that compare two views while fine-tuning (plc, lac, ignore), not for %s",
			m.ID,
		)
	case s.Delta < 0 || s.Delta >= 1:
		return wrong("stage_one_delta is %v, want a probability below 1", s.Delta)
	case s.Delta != 0 && s.Count < 2:
		return wrong("stage_one_delta is the first of two stages' δ; this run has one stage: --param delta=%v", s.Delta)
	case s.LR < 0 || s.LR != 0 && s.Count < 2:
		return wrong(
			"stage_one_lr is the first of two stages' learning rate, 0 or more; this run has %d stage(s)",
			max(s.Count, 1),
		)
	case s.First != "" && s.Count < 2:
		return wrong("stage_one is where the first of two stages lies; this run has one stage")
	case s.Count < 0 || s.Count > 2:
		return wrong("stages is %d, want 1 or 2", s.Count)
	case c.Method.QueueSize < -1:
		return wrong("queue_size is %d, want a number of pairs, or -1 for none", c.Method.QueueSize)
	case m.Needs(loss.StrongView) && c.Optim.MicroBatch > 0:
		return wrong("%s sees two views of the whole batch at once; leave micro_batch out", m.ID)
	}
	return nil
}

// checkMemory checks what saves memory.
func (c *Config) checkMemory() error {
	checkpointing, frozen := c.Model.GradCheckpointing, c.Model.Mode == Frozen
	switch {
	case !slices.Contains([]string{CheckpointNone, CheckpointHead, CheckpointAll}, checkpointing):
		return wrong("grad_checkpointing %q is none of none, head, all", checkpointing)
	case checkpointing == CheckpointHead && c.Model.Head != HeadDecoder:
		return wrong("grad_checkpointing head is for the layers of --head decoder")
	case frozen && (checkpointing != CheckpointNone || c.Model.FreezeAt != 0):
		return wrong("grad_checkpointing and freeze_at are for fine-tuning; --frozen trains no backbone")
	case c.Optim.InBackward && (frozen || c.Optim.ClipNorm > 0 || c.Optim.MicroBatch > 0 ||
		checkpointing != CheckpointNone || c.Run.Precision == FP16):
		return wrong(
			"optimizer_in_backward needs each gradient once and alone: it goes with fine-tuning, and without clip_norm, " +
				"micro_batch, grad_checkpointing and fp16's loss scale",
		)
	case c.Model.FreezeAt < 0:
		return wrong("freeze_at is %d, want a number of stages", c.Model.FreezeAt)
	}
	return nil
}

// checkHead checks that the head fits method and backbone.
func (c *Config) checkHead(m *method.Method) error {
	head, own := c.Model.Head, m.Needs(loss.ScoreMaps) || m.Mask != nil
	latent := m.Needs(loss.Latents)
	heads := append(append([]string{HeadLinear}, model.MapHeads()...), HeadDualCoOp)
	boosted := head == HeadBoostLU
	switch {
	case !slices.Contains(heads, head):
		return wrong("no head is called %q; there are %s", head, strings.Join(heads, ", "))
	case c.Model.Boost != 0 && !boosted:
		return wrong("boost is the factor of --head %s", HeadBoostLU)
	case c.Model.BoostEval && !boosted:
		return wrong("boost_eval is of --head %s", HeadBoostLU)
	case head == HeadLinear:
		return nil
	case head == HeadDualCoOp:
		if latent || own || m.Needs(loss.StrongView) {
			return wrong("%s has a head of its own, so it takes --head linear only", m.ID)
		}
		return nil
	}
	if boosted {
		def(&c.Model.Boost, 5)
	} else {
		def(&c.Model.DecoderDim, 256)
	}
	switch {
	case c.Model.Backbone == BackboneClip:
		return wrong("--head %s stands on a convolutional backbone; with --backbone clip take linear", head)
	case c.Model.Mode == Frozen:
		return wrong("--frozen trains a linear head on pooled features; --head %s needs the feature maps: leave --frozen out",
			head)
	case own || latent && head != HeadDecoder:
		return wrong("%s has a head of its own, so it does not take --head %s", m.ID, head)
	}
	return nil
}
