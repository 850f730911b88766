// Package pretrain trains small CLIPs from (picture, caption) pairs: the symmetric InfoNCE of Radford et al. 2021
// (arXiv:2103.00020, figure 3) with a learned temperature, AdamW, linear warm-up and a cosine schedule.
//
//	m, err := pretrain.Run(ctx, pretrain.Shapes(), pretrain.NewShapes(pretrain.ShapesSeed, pretrain.ShapesPictures), pretrain.Events{})
//
// [Shapes] and [NewShapes] are the settings and the pairs of the model that is built into this module: drawn pictures
// whose captions name one or two of what they show. It knows those pictures and nothing else.
//
// Several processes train one model with [RunGroup]: the loss sees the pairs of all of them. One goroutine runs it; the
// numbers of a run depend on the number of threads in their last bits.
package pretrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// Settings of a run.
type Settings struct {
	Model       clip.Config
	Steps       int
	Batch       int // pairs a step
	LR          float64
	WeightDecay float64      // of matrices; gains, biases, embeddings and the temperature have none
	Warmup      int          // steps
	Seed        int64        // of the initial values
	Device      torch.Device // where the towers train; the zero value is the CPU. The model comes back on the CPU
}

// Pairs gives batches of pictures and captions.
type Pairs interface {
	// Vocabulary is texts with every token that a caption may have. Only these tokens get an embedding of their own.
	Vocabulary() []string
	// Next fills pictures, uint8 [n, H, W, 3], and returns n captions.
	Next(pictures []byte, n int) ([]string, error)
}

// Step is a moment of a run.
type Step struct {
	Step, Steps   int
	Loss          float64
	Scale         float64 // exp(logit_scale)
	PairsPerSec   float64
	EstimatedLeft time.Duration
}

// Events receive progress; nil functions are left out.
type Events struct {
	Step func(Step) // after every step
}

// maxScale bounds the temperature, as OpenAI's training did.
const maxScale = 100

// Largest numbers of Settings.
const (
	mostSteps = 1 << 30
	mostBatch = 1 << 20
)

// ErrNotFinite is returned when the loss is NaN or infinite.
var ErrNotFinite = errors.New("pretrain: the loss is not finite; a smaller learning rate may help")

// Run trains a CLIP. The model comes back in evaluation mode; all tokens outside the pairs' vocabulary get the mean of
// the trained embeddings, so that an unknown word means nothing in particular.
func Run(ctx context.Context, s Settings, pairs Pairs, e Events) (*clip.CLIP, error) {
	return RunGroup(ctx, nil, s, pairs, e)
}

// RunGroup is Run in all processes of a group, each with the same settings and pairs: of every batch of s.Batch pairs,
// which the group's size has to divide, a process encodes its own part, and the loss is that of the whole batch over
// embeddings gathered from all. The numbers are those of one process; a ModifiedResNet's normalisation takes its
// statistics over all parts. Every process returns the model of the first. A nil group is one process. On cards each
// process has one of its own, and embeddings and gradients travel over NCCL.
func RunGroup(ctx context.Context, g *dist.Group, s Settings, pairs Pairs, e Events) (_ *clip.CLIP, err error) {
	defer caught.Recover(&err)
	c := s.Model
	switch {
	case c.Vision == nil || c.Text == nil:
		return nil, errors.New("pretrain: a model of two towers is needed")
	case s.Steps < 1 || s.Batch < 2 || !(s.LR > 0) || s.Warmup < 0:
		return nil, fmt.Errorf("pretrain: steps %d, batch %d (at least 2), learning rate %v, warm-up %d", s.Steps, s.Batch, s.LR, s.Warmup)
	case s.Steps > mostSteps || s.Batch > mostBatch || s.Warmup > mostSteps || s.LR > 1e6 || !(s.WeightDecay >= 0 && s.WeightDecay <= 1e6):
		return nil, fmt.Errorf("pretrain: steps %d (at most %d), batch %d (at most %d), warm-up %d, learning rate %v, weight decay %v (0 to 1,000,000)", s.Steps, mostSteps, s.Batch, mostBatch, s.Warmup, s.LR, s.WeightDecay)
	case c.Text.VocabSize != tokenizer.VocabSize:
		return nil, fmt.Errorf("pretrain: the tokenizer has %d tokens, the model's vocabulary %d", tokenizer.VocabSize, c.Text.VocabSize)
	}
	if err := torch.Available(); err != nil {
		return nil, err
	}
	r := ranks{group: g, size: 1}
	if g != nil {
		if r.rank, r.size = g.Rank(), g.Size(); s.Batch%r.size != 0 {
			return nil, fmt.Errorf("pretrain: a batch of %d pairs cannot be cut into %d parts", s.Batch, r.size)
		}
	}
	v := newVocabulary(pairs.Vocabulary())
	if s.Device.Type == torch.DeviceCPU {
		s.Device = torch.CPU
	}
	if g != nil {
		if err := g.Attach(s.Device.Type); err != nil {
			return nil, err
		}
	}
	small := *c.Text
	small.VocabSize = len(v.ids)
	c.Text = &small
	var m *clip.CLIP
	err = torch.Do(func() (err error) {
		torch.ManualSeed(s.Seed)
		if m, err = clip.New(c); err != nil {
			return err
		}
		if s.Device.Type != torch.DeviceCPU {
			if err = torch.Try(func() { nn.ToDevice(m, s.Device) }); err != nil {
				return err
			}
		}
		if err = r.run(ctx, s, m, v, pairs, e); err != nil {
			return err
		}
		if err = r.share(m); err != nil {
			return err
		}
		return torch.Try(func() {
			nn.ToDevice(m, torch.CPU)
			v.widen(m, s.Model)
		})
	})
	return m, err
}

func (r ranks) run(ctx context.Context, s Settings, m *clip.CLIP, v *vocabulary, pairs Pairs, e Events) error {
	nn.SetTraining(m, true)
	if r.group != nil {
		nn.SyncBatchNorm(m.Visual, r.group.Sum)
		defer nn.SyncBatchNorm(m.Visual, nil)
	}
	opt := optimizer(s, m)
	size := s.Model.Vision.ImageSize
	pictures := make([]byte, s.Batch*size[0]*size[1]*3)
	part := s.Batch / r.size
	start := time.Now()
	for step := range s.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		captions, err := pairs.Next(pictures, s.Batch)
		if err != nil {
			return err
		}
		b := tokenizer.Default().Batch(captions, s.Model.Text.ContextLength)
		if err := v.shrink(b, captions); err != nil {
			return err
		}
		rate := schedule(s, step)
		for _, g := range opt.Groups() {
			g.LR = rate
		}
		var loss, scale float64
		var gathered error
		err = torch.Try(func() {
			torch.Scope(func(*torch.Arena) {
				opt.ZeroGrad()
				from := r.rank * part
				ids := torch.FromSlice(b.IDs, len(captions), b.Len).Slice(0, from, from+part, 1).Slice(1, 0, b.Longest, 1).ToDevice(s.Device)
				mine := pictures[from*size[0]*size[1]*3:]
				image, err := r.gather(m.Visual.Forward(Input(mine, part, s.Model).ToDevice(s.Device)))
				if err != nil {
					gathered = err
					return
				}
				text, err := r.gather(m.ForwardText(ids))
				if err != nil {
					gathered = err
					return
				}
				l := m.ContrastiveLoss(image, text)
				loss = l.Item()
				l.Backward()
				if gathered = r.sum(m); gathered != nil {
					return
				}
				opt.Step()
				torch.NoGrad(func() { m.LogitScale.Clamp_(0.0, math.Log(maxScale)) })
				scale = math.Exp(m.LogitScale.Item())
			})
		})
		if err = errors.Join(err, gathered); err != nil {
			return err
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Errorf("%w (step %d)", ErrNotFinite, step+1)
		}
		if e.Step != nil {
			perStep := time.Since(start) / time.Duration(step+1)
			e.Step(Step{step + 1, s.Steps, loss, scale, float64(s.Batch) / perStep.Seconds(), perStep * time.Duration(s.Steps-step-1)})
		}
	}
	nn.SetTraining(m, false)
	return torch.Try(opt.ZeroGrad)
}

// optimizer has a group with decay and one without.
func optimizer(s Settings, m *clip.CLIP) optim.Optimizer {
	var matrices, others []*torch.Tensor
	for name, p := range nn.NamedParameters(m) {
		if p.Dim() >= 2 && name != "token_embedding.weight" && name != "positional_embedding" {
			matrices = append(matrices, p)
		} else {
			others = append(others, p)
		}
	}
	opt := optim.NewAdamW(matrices, optim.LR(s.LR), optim.WeightDecay(s.WeightDecay), optim.Betas(0.9, 0.98), optim.Eps(1e-6))
	opt.AddGroup(others, optim.WeightDecay(0))
	return opt
}

// schedule rises linearly over the warm-up and then falls to zero as a cosine.
func schedule(s Settings, step int) float64 {
	if step < s.Warmup {
		return s.LR * float64(step+1) / float64(s.Warmup)
	}
	return s.LR * 0.5 * (1 + math.Cos(math.Pi*float64(step-s.Warmup)/float64(max(1, s.Steps-s.Warmup))))
}

// Input makes a model's input [n, 3, H, W] of the bytes of pictures, as its preprocessing does with files of that size.
func Input(pictures []byte, n int, c clip.Config) *torch.Tensor {
	h, w := c.Vision.ImageSize[0], c.Vision.ImageSize[1]
	p := c.Preprocess
	x := torch.FromSlice(pictures[:n*h*w*3], n, h, w, 3).Permute(0, 3, 1, 2).ToDType(torch.Float32).DivScalar(255) // channels last, which convolutions like
	return x.Sub(torch.FromSlice(p.Mean[:], 1, 3, 1, 1)).Div(torch.FromSlice(p.Std[:], 1, 3, 1, 1))
}

// vocabulary numbers the tokens that are trained, in the order of their ids, so that the end token stays the largest.
type vocabulary struct {
	ids    []int32         // token ids
	number map[int32]int32 // token id to its place in ids
}

func newVocabulary(texts []string) *vocabulary {
	seen := map[int32]bool{0: true, tokenizer.SOT: true, tokenizer.EOT: true} // 0 pads
	for _, t := range texts {
		for _, id := range tokenizer.Default().Encode(t) {
			seen[id] = true
		}
	}
	v := &vocabulary{ids: slices.Sorted(maps.Keys(seen)), number: map[int32]int32{}}
	for i, id := range v.ids {
		v.number[id] = int32(i)
	}
	return v
}

// shrink renumbers a batch in place.
func (v *vocabulary) shrink(b *tokenizer.Batch, captions []string) error {
	for i, id := range b.IDs {
		n, ok := v.number[id]
		if !ok {
			return fmt.Errorf("pretrain: the caption %q has a token outside the vocabulary of its pairs", captions[i/b.Len])
		}
		b.IDs[i] = n
	}
	return nil
}

// widen gives m the table of the whole vocabulary.
func (v *vocabulary) widen(m *clip.CLIP, c clip.Config) {
	torch.NoGrad(func() {
		torch.Scope(func(*torch.Arena) {
			known := m.TokenEmbedding.Weight
			mean := known.Slice(0, 1, len(v.ids), 1).MeanDim([]int{0}, true) // without padding's
			at := make([]int64, len(v.ids))
			for i, id := range v.ids {
				at[i] = int64(id)
			}
			wide := mean.Repeat(c.Text.VocabSize, 1).IndexCopy(0, torch.FromSlice(at), known)
			m.SetTokens(wide)
		})
	})
	m.Config = c
}

// Normalise is the former name of [Input].
//
// Deprecated: use [Input]; [clip.Normalize] is another thing, vectors of length 1.
func Normalise(pictures []byte, n int, c clip.Config) *torch.Tensor { return Input(pictures, n, c) }
