package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Heads that a run can have.
const (
	HeadLinear    = "linear"
	HeadDecoder   = "decoder"
	HeadMLDecoder = "ml-decoder"
)

// headed is a backbone whose head looks at its feature map. It is a backbone.Model, so that everything that takes one takes it too.
type headed struct {
	Body    backbone.Model
	Decoder *decoder.Decoder   // of HeadDecoder
	ML      *decoder.MLDecoder // of HeadMLDecoder

	dim int
}

// newHeaded gives a body another head. The body loses its own.
func newHeaded(body backbone.Model, c headConfig, classes int, g *torch.Generator) (backbone.Model, error) {
	h := &headed{Body: body, dim: body.FeatureDim()}
	var err error
	switch c.Head {
	case "", HeadLinear, HeadDualCoOp:
		return body, nil
	case HeadDecoder:
		h.Decoder, err = decoder.New(decoder.Config{InFeatures: h.dim, Classes: classes, Dim: c.Dim, Projection: c.Projection, Generator: g})
	case HeadMLDecoder:
		h.ML, err = decoder.NewML(decoder.MLConfig{InFeatures: h.dim, Classes: classes, Dim: c.Dim, Dropout: 0.1, Generator: g})
	default:
		err = fmt.Errorf("no head is called %q; there are %s, %s, %s", c.Head, HeadLinear, HeadDecoder, HeadMLDecoder)
	}
	if err != nil {
		return nil, err
	}
	body.SetHead(nil)
	return h, nil
}

// headConfig is what config.json says of a head that is not linear.
type headConfig struct {
	Head       string `json:"head,omitempty"`
	Dim        int    `json:"decoder_dim,omitempty"`
	Projection int    `json:"projection_dim,omitempty"` // of the decoder's embeddings; -1 = none
}

// headConfig is the head of a run; a linear one needs no words.
func (c *Config) headConfig() headConfig {
	if c.Head == HeadLinear {
		return headConfig{}
	}
	h := headConfig{Head: c.Head, Dim: c.DecoderDim}
	if c.Head == HeadDecoder {
		h.Projection = decoder.None
		if c.QueueSize != 0 { // the embeddings are contrasted
			h.Projection = projectionDim
		}
	}
	return h
}

// Forward gives logits [B, C].
func (h *headed) Forward(x *torch.Tensor) *torch.Tensor {
	if h.ML != nil {
		return h.ML.Forward(h.Body.FeatureMap(x))
	}
	return h.Decoder.Forward(h.Body.FeatureMap(x), decoder.Want{}).Logits
}

// FeatureMap is the body's.
func (h *headed) FeatureMap(x *torch.Tensor) *torch.Tensor { return h.Body.FeatureMap(x) }

// Features are the body's pooled features.
func (h *headed) Features(x *torch.Tensor) *torch.Tensor { return h.Body.Features(x) }

// FeatureDim is the body's.
func (h *headed) FeatureDim() int { return h.dim }

// Head is nil: the head is no linear layer.
func (h *headed) Head() *nn.Linear { return nil }

// HeadKey is the prefix of the head's tensors.
func (h *headed) HeadKey() string {
	if h.ML != nil {
		return "ml"
	}
	return "decoder"
}

// SetHead does nothing: the head is no linear layer.
func (h *headed) SetHead(*nn.Linear) {}

// Gradient checkpointing of a run.
const (
	CheckpointNone = "none"
	CheckpointHead = "head" // a decoder's layers
	CheckpointAll  = "all"  // and the blocks of a ResNet
)

// saveMemory freezes stages and turns checkpointing on.
func (n *network) saveMemory() error {
	body := n.model
	h, decoded := n.model.(*headed)
	if decoded {
		body = h.Body
	}
	if n.c.FreezeAt > 0 {
		if err := backbone.FreezeAt(body, n.c.FreezeAt); err != nil {
			return &ConfigError{fmt.Sprintf("freeze_at: %v", strings.TrimPrefix(err.Error(), "backbone: "))}
		}
	}
	switch n.c.GradCheckpointing {
	case CheckpointAll:
		r, ok := body.(*backbone.ResNet)
		if !ok {
			return &ConfigError{"grad_checkpointing all knows the blocks of a ResNet; " + n.c.Backbone + " is none"}
		}
		for _, l := range nn.Modules(body) {
			if bn, ok := l.(*nn.BatchNorm2d); ok && !bn.Frozen {
				return &ConfigError{"grad_checkpointing all would count every batch twice in the running statistics: set batch_norm frozen or constant"}
			}
		}
		r.Checkpointing = true
		fallthrough
	case CheckpointHead:
		if decoded && h.Decoder != nil {
			h.Decoder.Checkpointing = true
		}
	}
	return nil
}

// split lists the parameters of body and head.
func split(m backbone.Model) (body, head []*torch.Tensor) {
	if d, ok := m.(*dualcoop.Model); ok {
		return nil, []*torch.Tensor{d.CtxPos, d.CtxNeg}
	}
	h, ok := m.(*headed)
	if !ok {
		return backbone.Split(m)
	}
	if h.ML != nil {
		return nn.Parameters(h.Body), nn.Parameters(h.ML)
	}
	return nn.Parameters(h.Body), nn.Parameters(h.Decoder)
}

// openModel reads the model of a folder with its config.json, in evaluation mode.
func openModel(dir string) (backbone.Model, ModelConfig, error) {
	mc, err := readModelConfig(dir)
	if err != nil {
		return nil, mc, err
	}
	if mc.FeaturesOnly {
		return nil, mc, fmt.Errorf("%w: %s was trained on stored features without a backbone, so it cannot read photos; train with --weights FILE", ErrData, dir)
	}
	path := filepath.Join(dir, modelWeights)
	var m backbone.Model
	err = torch.Try(func() {
		if mc.Architecture == BackboneClip {
			if m, err = openClipModel(mc); err == nil {
				err = loadInto(m, path)
			}
			return
		}
		if mc.Head == "" || mc.Head == HeadLinear {
			m, _, err = backbone.NewFromFile(backbone.OfTimm(mc.Architecture), path, mc.NumClasses)
			return
		}
		var body backbone.Model
		if body, err = backbone.New(mc.Architecture, mc.NumClasses, nn.NoInit()); err != nil {
			return
		}
		if m, err = newHeaded(body, mc.headConfig, mc.NumClasses, nil); err != nil {
			return
		}
		err = loadInto(m, path)
	})
	if err != nil {
		return nil, mc, fmt.Errorf("%s: %w", dir, err)
	}
	nn.SetTraining(m, false)
	return m, mc, nil
}

// loadInto reads a model's tensors.
func loadInto(m backbone.Model, path string) error {
	sd, _, err := nn.LoadSafetensors(path)
	if err != nil {
		return err
	}
	defer sd.Free()
	_, err = nn.LoadStateDict(m, sd, true)
	return err
}

// modelDir is the model folder of a run directory, or the folder itself.
func modelDir(dir string) string {
	if exists(filepath.Join(dir, "run.yaml")) || exists(filepath.Join(dir, "model")) {
		return filepath.Join(dir, "model")
	}
	return dir
}

// startFrom copies what fits of a saved model into m, and says what did not.
func startFrom(m backbone.Model, dir string) (string, error) {
	dir = modelDir(dir)
	sd, _, err := nn.LoadSafetensors(filepath.Join(dir, modelWeights))
	if err != nil {
		return "", err
	}
	defer sd.Free()
	if w := sd["weight"]; w != nil && m.HeadKey() != "" { // a head on features
		sd = nn.StateDict{m.HeadKey() + ".weight": w, m.HeadKey() + ".bias": sd["bias"]}
	}
	var fresh, unused []string
	own := nn.StateDictOf(m)
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for _, k := range own.Keys() {
				from := sd[k]
				if from == nil || !sameShape(from, own[k]) {
					fresh = append(fresh, k)
					continue
				}
				own[k].Detach().Copy_(from)
			}
		})
	})
	for _, k := range sd.Keys() {
		if own[k] == nil {
			unused = append(unused, k)
		}
	}
	if err == nil && len(fresh) == len(own) {
		err = errors.New("none of its tensors fits this model")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	return fmt.Sprintf("%s: %d tensors taken, %d fresh, %d not used", dir, len(own)-len(fresh), len(fresh), len(unused)), nil
}

func sameShape(a, b *torch.Tensor) bool {
	return fmt.Sprint(a.Shape()) == fmt.Sprint(b.Shape())
}

// resolveHead fills in and checks the head, the stages and the queue.
func (c *Config) resolveHead(e *loss.Entry) error {
	fail := func(format string, a ...any) error { return &ConfigError{fmt.Sprintf(format, a...)} }
	embeds := e.Needs&loss.Embeddings != 0
	if embeds && c.Mode != Frozen {
		def(&c.Head, HeadDecoder)
		def(&c.QueueSize, 512)
		def(&c.Stages, 2)
	}
	twoViews := e.Needs&loss.StrongView != 0 && c.Mode != Frozen
	if twoViews {
		view := StrongViews()[0]
		if c.Form == "paper" {
			view = StrongViews()[1] // as printed
		}
		def(&c.StrongView, view)
	}
	def(&c.Head, HeadLinear)
	def(&c.GradCheckpointing, CheckpointNone)
	switch {
	case c.GradCheckpointing != CheckpointNone && c.GradCheckpointing != CheckpointHead && c.GradCheckpointing != CheckpointAll:
		return fail("grad_checkpointing %q is none of none, head, all", c.GradCheckpointing)
	case c.GradCheckpointing == CheckpointHead && c.Head != HeadDecoder:
		return fail("grad_checkpointing head is for the layers of --head decoder")
	case c.Mode == Frozen && (c.GradCheckpointing != CheckpointNone || c.FreezeAt != 0):
		return fail("grad_checkpointing and freeze_at are for fine-tuning; --frozen trains no backbone")
	case c.OptimizerInBackward && (c.Mode == Frozen || c.ClipNorm > 0 || c.MicroBatch > 0 || c.GradCheckpointing != CheckpointNone || c.Precision == FP16):
		return fail("optimizer_in_backward needs each gradient once and alone: it goes with fine-tuning, and without clip_norm, micro_batch, grad_checkpointing and fp16's loss scale")
	case c.FreezeAt < 0:
		return fail("freeze_at is %d, want a number of stages", c.FreezeAt)
	}
	switch c.Head {
	case HeadLinear:
	case HeadDualCoOp:
		if latent(e) || e.Needs&(loss.ScoreMaps|loss.StrongView) != 0 {
			return fail("%s has a head of its own, so it takes --head linear only", e.ID)
		}
	case HeadDecoder, HeadMLDecoder:
		def(&c.DecoderDim, 256)
		if c.Backbone == BackboneClip {
			return fail("--head %s stands on a convolutional backbone; with --backbone clip take linear", c.Head)
		}
		if c.Mode == Frozen {
			return fail("--frozen trains a linear head on pooled features; --head %s needs the feature maps: leave --frozen out", c.Head)
		}
		if latent(e) || e.Needs&loss.ScoreMaps != 0 {
			return fail("%s has a head of its own, so it takes --head linear only", e.ID)
		}
	default:
		return fail("no head is called %q; there are %s, %s, %s", c.Head, HeadLinear, HeadDecoder, HeadMLDecoder+", "+HeadDualCoOp)
	}
	switch {
	case embeds && c.Head != HeadDecoder:
		return fail("%s contrasts label-wise embeddings, which the label-wise decoder gives: fine-tune with --head decoder", e.ID)
	case !embeds && (c.QueueSize != 0 || c.Stages > 1):
		return fail("queue_size and stages belong to lac, not to %s", e.ID)
	case twoViews && strongViews[c.StrongView] == nil:
		return fail("no strong view is called %q; there are %s", c.StrongView, strings.Join(StrongViews(), ", "))
	case !twoViews && c.StrongView != "":
		return fail("strong_view is for methods that compare two views while fine-tuning (plc, lac), not for %s", e.ID)
	case c.StageOneDelta < 0 || c.StageOneDelta >= 1:
		return fail("stage_one_delta is %v, want a probability below 1", c.StageOneDelta)
	case c.StageOneDelta != 0 && c.Stages < 2:
		return fail("stage_one_delta is the first of two stages' δ; this run has one stage: --param delta=%v", c.StageOneDelta)
	case c.StageOneLR < 0 || c.StageOneLR != 0 && c.Stages < 2:
		return fail("stage_one_lr is the first of two stages' learning rate, 0 or more; this run has %d stage(s)", max(c.Stages, 1))
	case c.StageOne != "" && c.Stages < 2:
		return fail("stage_one is where the first of two stages lies; this run has one stage")
	case c.Stages < 0 || c.Stages > 2:
		return fail("stages is %d, want 1 or 2", c.Stages)
	case c.QueueSize < -1:
		return fail("queue_size is %d, want a number of pairs, or -1 for none", c.QueueSize)
	case c.EMABest && c.EMA == 0:
		return fail("ema_best compares the weights with their average; set ema too, for instance 0.9997")
	case e.Needs&loss.StrongView != 0 && c.MicroBatch > 0:
		return fail("%s sees two views of the whole batch at once; leave micro_batch out", e.ID)
	}
	return nil
}
