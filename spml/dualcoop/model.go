package dualcoop

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ContextStd is the standard deviation of fresh contexts.
const ContextStd = 0.02

// Config are the choices of a model.
type Config struct {
	Context  int  // learned tokens of each prompt; 16 in the paper
	PerClass bool // contexts of each class its own, as for partial labels in the released code; else all classes share two
	// Generator draws the contexts; nil: the default one.
	Generator *torch.Generator
	// ImageNet says that pictures come normalised with ImageNet's statistics, as this module's trainer gives them; they
	// are brought to CLIP's.
	ImageNet bool
}

// Model is DualCoOp: a frozen CLIP, two learned contexts. It satisfies backbone.Model; its logit is the positive
// prompt's less the negative one's, whose sigmoid is the probability of [Aggregate].
//
// Forward is safe for many goroutines after Fix. Only CtxPos and CtxNeg want gradients.
type Model struct {
	CLIP           *clip.CLIP
	CtxPos, CtxNeg *torch.Tensor // [n, T], or [C, n, T]
	Tokens         *torch.Tensor `torch:",buffer"` // int64 [C, L]: start, class name and ".", end, zeros
	Ends           *torch.Tensor `torch:",buffer"` // int64 [C]: the end tokens' places

	c     Config
	scale *torch.Tensor // [1, 3, 1, 1] of the pictures' statistics
	shift *torch.Tensor
	text  *torch.Tensor // [2·C, E] after Fix
}

// New makes a model for classes, _ in whose names stands for a blank. It takes the CLIP over.
func New(m *clip.CLIP, tok *tokenizer.Tokenizer, classes []string, c Config) (*Model, error) {
	if m.Visual == nil || m.Config.Text == nil {
		return nil, fmt.Errorf("dualcoop: prompts are learned through the text tower and compared with the image tower; this model lacks one of them")
	}
	if len(classes) == 0 || c.Context < 1 {
		return nil, fmt.Errorf("dualcoop: %d classes and contexts of %d tokens, want at least one", len(classes), c.Context)
	}
	text := m.Config.Text
	if text.Bidirectional || text.Pool != clip.PoolEnd {
		return nil, fmt.Errorf("dualcoop: prompts want a causal text tower that reads the end token out, as CLIP's; this model has another")
	}
	if n := tok.VocabSize(); n > text.VocabSize {
		return nil, fmt.Errorf("dualcoop: the model's vocabulary has %d tokens and the tokenizer %d", text.VocabSize, n)
	}
	prompts := make([]string, len(classes))
	for i, name := range classes {
		if name = strings.TrimSpace(strings.ReplaceAll(name, "_", " ")); name == "" {
			return nil, fmt.Errorf("dualcoop: class %d has no name", i+1)
		}
		prompts[i] = name + "."
	}
	room := text.ContextLength - c.Context
	if room < 3 {
		return nil, fmt.Errorf("dualcoop: contexts of %d tokens leave no room for a name in the %d tokens of a text", c.Context, text.ContextLength)
	}
	b := tok.Batch(prompts, room)
	if len(b.Truncated) > 0 {
		return nil, fmt.Errorf("dualcoop: with a context of %d tokens the name %q is too long for the %d tokens of a text", c.Context, classes[b.Truncated[0]], text.ContextLength)
	}
	d := &Model{CLIP: m}
	err := torch.Try(func() {
		ids, ends := make([]int64, 0, len(classes)*b.Longest), make([]int64, len(classes))
		for i := range classes {
			row := b.Row(i)[:b.Longest]
			for k, id := range row {
				ids = append(ids, int64(id))
				if id != 0 { // the end token is the last that is not padding
					ends[i] = int64(k)
				}
			}
		}
		d.Tokens, d.Ends = torch.FromSlice(ids, len(classes), b.Longest), torch.FromSlice(ends)
		shape := torch.S(c.Context, text.Width)
		if c.PerClass {
			shape = torch.S(len(classes), c.Context, text.Width)
		}
		d.CtxPos, d.CtxNeg = torch.Empty(shape), torch.Empty(shape)
		nn.Normal_(d.CtxPos, 0, ContextStd, c.Generator)
		nn.Normal_(d.CtxNeg, 0, ContextStd, c.Generator)
	})
	if err == nil {
		err = d.prepare(c)
	}
	return d, err
}

// Blank makes a model whose tensors are loaded next: of classes whose longest name has tokens ids, start and end
// included.
func Blank(config clip.Config, classes, tokens int, c Config) (*Model, error) {
	if config.Vision == nil || config.Text == nil || classes < 1 || tokens < 2 || c.Context < 1 || c.Context+tokens > config.Text.ContextLength {
		return nil, fmt.Errorf("dualcoop: %d classes of %d tokens with contexts of %d do not fit the model", classes, tokens, c.Context)
	}
	m, err := clip.New(config)
	if err != nil {
		return nil, err
	}
	d := &Model{CLIP: m}
	err = torch.Try(func() {
		shape := torch.S(c.Context, config.Text.Width)
		if c.PerClass {
			shape = torch.S(classes, c.Context, config.Text.Width)
		}
		d.CtxPos, d.CtxNeg = torch.Zeros(shape), torch.Zeros(shape)
		d.Tokens, d.Ends = torch.Zeros(torch.S(classes, tokens), torch.Int64), torch.Zeros(torch.S(classes), torch.Int64)
	})
	if err == nil {
		err = d.prepare(c)
	}
	return d, err
}

// prepare freezes the towers and wants gradients of the contexts.
func (d *Model) prepare(c Config) error {
	d.c = c
	return torch.Try(func() {
		nn.RequiresGrad(d.CLIP, false)
		nn.FreezeBatchNorm(d.CLIP, true)
		nn.SetTraining(d.CLIP, false)
		d.CtxPos.SetRequiresGrad(true)
		d.CtxNeg.SetRequiresGrad(true)
		if c.ImageNet {
			p := d.CLIP.Config.Preprocess
			d.scale, d.shift = Renormalize(p.Mean, p.Std)
		}
	})
}

// Renormalize gives factor and summand, [1, 3, 1, 1], that bring a picture with ImageNet's statistics to others.
func Renormalize(mean, std [3]float32) (scale, shift *torch.Tensor) {
	var a, b [3]float32
	for i := range a {
		a[i] = pixel.ImageNetStd[i] / std[i]
		b[i] = (pixel.ImageNetMean[i] - mean[i]) / std[i]
	}
	return torch.FromSlice(a[:], 1, 3, 1, 1), torch.FromSlice(b[:], 1, 3, 1, 1)
}

// ToDevice moves the model in place; see nn.ToDevice.
func (d *Model) ToDevice(to torch.Device) {
	d.Loosen()
	nn.ToDevice(d, to)
	if d.scale != nil {
		d.scale, d.shift = d.scale.ToDevice(to), d.shift.ToDevice(to)
	}
}

// Texts are the prompts' embeddings [2·C, E], the negative ones first. They are not normalised.
func (d *Model) Texts() *torch.Tensor {
	if d.text != nil {
		return d.text
	}
	n := d.Tokens.Size(0)
	names := d.CLIP.TokenEmbedding.Forward(d.Tokens) // [C, L, T]
	first, rest := names.Slice(1, 0, 1, 1), names.Slice(1, 1, names.Size(1), 1)
	prompts := func(context *torch.Tensor) *torch.Tensor {
		if !d.c.PerClass {
			context = context.Unsqueeze(0).Expand(n, d.c.Context, names.Size(2))
		}
		return torch.Cat([]*torch.Tensor{first, context, rest}, 1)
	}
	at := d.Ends.AddScalar(float64(d.c.Context)).ToDType(torch.Int64)
	return d.CLIP.ForwardTokens(torch.Cat([]*torch.Tensor{prompts(d.CtxNeg), prompts(d.CtxPos)}, 0), torch.Cat([]*torch.Tensor{at, at}, 0))
}

// Fix computes the prompts' embeddings once, for use while the contexts do not change; Loosen takes that back.
func (d *Model) Fix() {
	d.Loosen()
	torch.NoGrad(func() {
		torch.Scope(func(s *torch.Arena) {
			t := d.Texts()
			s.Keep(t)
			d.text = t
		})
	})
}

// Loosen makes Forward compute the prompts' embeddings each time again, as training wants.
func (d *Model) Loosen() {
	if d.text != nil {
		d.text.Free()
		d.text = nil
	}
}

// Regions are the pictures' region embeddings [B, E, 1+rows·columns]; no gradients.
func (d *Model) Regions(x *torch.Tensor) (r *torch.Tensor) {
	torch.NoGrad(func() {
		if d.scale != nil {
			x = x.Mul(d.scale).Add(d.shift)
		}
		r = clip.Regions(d.CLIP.Visual, x)
	})
	return r
}

// Forward maps pictures [B, 3, H, W] to logits [B, C].
func (d *Model) Forward(x *torch.Tensor) *torch.Tensor {
	logits, _, err := Aggregate(d.Regions(x), d.Texts())
	if err != nil {
		panic(&torch.Error{Kind: torch.KindValue, Op: "dualcoop.Model", Msg: err.Error()})
	}
	return logits.Select(1, 1).Sub(logits.Select(1, 0))
}

// Split lists what is trained: no parameters of the body, the contexts as head.
func (d *Model) Split() (body, head []*torch.Tensor) {
	return nil, []*torch.Tensor{d.CtxPos, d.CtxNeg}
}

// Spec is what Blank needs to make an equal model.
type Spec struct {
	CLIP         *clip.Config `json:"clip,omitempty"`
	Context      int          `json:"context,omitempty"`
	ClassContext bool         `json:"class_context,omitempty"`
	NameTokens   int          `json:"name_tokens,omitempty"` // of the longest name, start and end included
}

// Spec describes the model.
func (d *Model) Spec() Spec {
	config := d.CLIP.Config
	return Spec{CLIP: &config, Context: d.c.Context, ClassContext: d.c.PerClass, NameTokens: d.Tokens.Size(1)}
}

// Trained are the tensors that training changes.
func (d *Model) Trained() nn.StateDict { return nn.StateDict{"ctx_pos": d.CtxPos, "ctx_neg": d.CtxNeg} }

// FeatureMap is the map of the regions' embeddings [B, E, rows, columns].
func (d *Model) FeatureMap(x *torch.Tensor) *torch.Tensor {
	r := d.Regions(x)
	rows, columns := Grid(d.CLIP, x)
	return r.Slice(2, 1, r.Size(2), 1).Reshape(r.Size(0), r.Size(1), rows, columns)
}

// Grid is how many regions a picture has.
func Grid(m *clip.CLIP, x *torch.Tensor) (rows, columns int) {
	s := m.Config.Vision.Stride()
	return x.Size(2) / s, x.Size(3) / s
}

// Features are the embeddings of the whole pictures [B, E].
func (d *Model) Features(x *torch.Tensor) *torch.Tensor { return d.Regions(x).Select(2, 0) }

// FeatureDim is E.
func (d *Model) FeatureDim() int { return d.CLIP.Config.EmbedDim }

// Head is nil: prompts are the classifier.
func (d *Model) Head() *nn.Linear { return nil }

// HeadKey is the prefix of the contexts.
func (d *Model) HeadKey() string { return "ctx" }

// SetHead does nothing.
func (d *Model) SetHead(*nn.Linear) {}
