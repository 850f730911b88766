package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// headSpec is the head of a run; a linear one needs no words.
func (c *Config) headSpec() model.HeadSpec {
	if c.Head == HeadLinear {
		return model.HeadSpec{}
	}
	h := model.HeadSpec{Head: c.Head, Dim: c.DecoderDim}
	if c.Head == HeadBoostLU {
		h.Boost, h.BoostEval = c.Boost, c.BoostEval
	}
	if c.Head == HeadDecoder {
		h.Projection = decoder.None
		if m := c.method(); latent(m.Loss) {
			h.Latent, h.LatentBeta = c.LatentDim, m.Needs(loss.BetaParameters)
		}
		if c.QueueSize != 0 { // the embeddings are contrasted
			h.Projection = c.method().Projection
		}
	}
	return h
}

// Gradient checkpointing of a run.
const (
	CheckpointNone = "none"
	CheckpointHead = "head" // a decoder's layers
	CheckpointAll  = "all"  // and the blocks of a ResNet
)

// saveMemory freezes stages and turns checkpointing on.
func (n *network) saveMemory() error {
	body := model.Base(n.model)
	if n.c.FreezeAt > 0 {
		if err := backbone.FreezeAt(body, n.c.FreezeAt); err != nil {
			return &ConfigError{Msg: fmt.Sprintf("freeze_at: %v", strings.TrimPrefix(err.Error(), "backbone: "))}
		}
	}
	switch n.c.GradCheckpointing {
	case CheckpointAll:
		r, ok := body.(model.BodyCheckpointer)
		if !ok {
			return &ConfigError{Msg: "grad_checkpointing all knows the blocks of a ResNet; " + n.c.Backbone + " is none"}
		}
		for _, l := range nn.Modules(body) {
			if bn, ok := l.(*nn.BatchNorm2d); ok && !bn.Frozen {
				return &ConfigError{Msg: "grad_checkpointing all would count every batch twice in the running statistics: set batch_norm frozen or constant"}
			}
		}
		r.CheckpointBody()
		fallthrough
	case CheckpointHead:
		if h, ok := n.model.(model.HeadCheckpointer); ok {
			h.CheckpointHead()
		}
	}
	return nil
}

// startFrom copies what fits of a saved model into m, and says what did not.
func startFrom(m backbone.Model, dir string) (string, error) {
	dir = model.Dir(dir)
	sd, _, err := nn.LoadSafetensors(filepath.Join(dir, model.WeightsFile))
	if err != nil {
		return "", err
	}
	defer sd.Free()
	if w := sd["weight"]; w != nil && m.HeadKey() != "" { // a head on features
		sd = nn.StateDict{m.HeadKey() + ".weight": w, m.HeadKey() + ".bias": sd["bias"]}
	}
	var fresh, unused []string
	model.Fit(m, sd)
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
func (c *Config) resolveHead(m *method.Method) error {
	e := m.Loss
	fail := func(format string, a ...any) error { return &ConfigError{Msg: fmt.Sprintf(format, a...)} }
	embeds := e.Needs&loss.Embeddings != 0
	if embeds && c.Mode != Frozen {
		def(&c.Head, HeadDecoder)
		def(&c.QueueSize, 512)
	}
	if m.First != "" && c.Mode != Frozen {
		def(&c.Stages, 2)
	}
	twoViews := e.Needs&loss.StrongView != 0 && c.Mode != Frozen
	if twoViews {
		view := StrongViews()[0]
		switch {
		case m.Mask != nil:
			view = "ignore"
		case c.Form == "paper":
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
		if latent(e) && c.Head != HeadDecoder || e.Needs&loss.ScoreMaps != 0 || m.Mask != nil {
			return fail("%s has a head of its own, so it does not take --head %s", e.ID, c.Head)
		}
	case HeadBoostLU:
		def(&c.Boost, 5)
		switch {
		case c.Backbone == BackboneClip:
			return fail("--head %s stands on a convolutional backbone; with --backbone clip take linear", c.Head)
		case c.Mode == Frozen:
			return fail("--frozen trains a linear head on pooled features; --head %s needs the feature maps: leave --frozen "+
				"out", c.Head)
		case latent(e) || e.Needs&loss.ScoreMaps != 0 || m.Mask != nil:
			return fail("%s has a head of its own, so it takes --head linear only", e.ID)
		}
	default:
		return fail("no head is called %q; there are %s, %s, %s, %s", c.Head, HeadLinear, HeadBoostLU, HeadDecoder,
			HeadMLDecoder+", "+HeadDualCoOp)
	}
	switch {
	case c.Boost != 0 && c.Head != HeadBoostLU || c.BoostEval && c.Head != HeadBoostLU:
		return fail("boost is the factor of --head %s", HeadBoostLU)
	case c.Boost < 0:
		return fail("boost is %v, want a factor above 0; 1 changes nothing", c.Boost)
	case m.Mask != nil && c.Mode == Frozen:
		return fail("%s masks photos by the network's class maps, which --frozen does not have: leave it out", e.ID)
	case embeds && c.Head != HeadDecoder:
		return fail("%s contrasts label-wise embeddings, which the label-wise decoder gives: fine-tune with --head decoder", e.ID)
	case !embeds && c.QueueSize != 0 || m.First == "" && c.Stages > 1:
		return fail("queue_size and stages belong to lac, not to %s", e.ID)
	case twoViews && strongViews[c.StrongView] == nil:
		return fail("no strong view is called %q; there are %s", c.StrongView, strings.Join(StrongViews(), ", "))
	case !twoViews && c.StrongView != "":
		return fail("strong_view is for methods that compare two views while fine-tuning (plc, lac, ignore), not for %s",
			e.ID)
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
