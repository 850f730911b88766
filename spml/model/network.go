package model

import (
	"fmt"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// What a network can say of itself beside backbone.Model, by optional methods. A plain backbone with its linear head
// needs none of them.
type (
	// Splitter lists the trained parameters of body and head.
	Splitter interface {
		Split() (body, head []*torch.Tensor)
	}
	// Partial trains a part of itself: a checkpoint holds only that.
	Partial interface{ Trained() nn.StateDict }
	// Fixer computes once what does not change while weights do not, and forgets it again.
	Fixer interface {
		Fix()
		Loosen()
	}
	// Embedder gives label-wise embeddings [B, C, D], or nil, beside the logits.
	Embedder interface {
		Embed(x *torch.Tensor) (logits, embeddings *torch.Tensor)
	}
	// LatentNetwork has a latent for each label, on label-wise embeddings f [B, C, D], and judges latents z [B, C, d].
	LatentNetwork interface {
		Labelwise(x *torch.Tensor) (f *torch.Tensor)
		Latents(f *torch.Tensor) decoder.Latents
		Logits(f, z *torch.Tensor) *torch.Tensor
		LatentParameters() []*torch.Tensor // of Latents and Logits
	}
	// Explainer gives the map of each label beside the logits.
	Explainer interface {
		Explain(x *torch.Tensor) (*Maps, error)
	}
	// Wrapper stands on a backbone of its own.
	Wrapper interface{ Base() backbone.Model }
	// HeadCheckpointer forgets what lies inside its head and computes it again during backward.
	HeadCheckpointer interface{ CheckpointHead() }
	// BodyCheckpointer does the same with the blocks of the backbone.
	BodyCheckpointer interface{ CheckpointBody() }
	// Pooler says whether its features are the mean of its feature map, so that a linear head on each position gives score
	// maps whose mean is the score. A network without the method says yes.
	Pooler interface{ MeanPooled() bool }
	// ClipMade is made of a CLIP and says what Blank needs to make its equal.
	ClipMade interface{ Spec() dualcoop.Spec }
)

// Maps say where a network looked for each label.
type Maps struct {
	Kind   string // "attention" or "cam", as in Explanation
	H, W   int
	Values *torch.Tensor // [B, C, H·W], or [B, C, H, W]
	Logits *torch.Tensor // [B, C]
}

// Split lists the trained parameters of body and head.
func Split(m backbone.Model) (body, head []*torch.Tensor) {
	if s, ok := m.(Splitter); ok {
		return s.Split()
	}
	return backbone.Split(m)
}

// Trained is what a checkpoint of a network holds.
func Trained(m backbone.Model) nn.StateDict {
	if p, ok := m.(Partial); ok {
		return p.Trained()
	}
	return nn.StateDictOf(m)
}

// Base is the backbone that a network stands on.
func Base(m backbone.Model) backbone.Model {
	if w, ok := m.(Wrapper); ok {
		return w.Base()
	}
	return m
}

// Linear is the linear classifier that a network's own head is or is made of; nil for any other head.
func Linear(m backbone.Model) *nn.Linear {
	if b, ok := m.(*boosted); ok {
		return b.Body.Head()
	}
	return m.Head()
}

// Fix computes what stays the same until the returned function is called.
func Fix(m backbone.Model) (loosen func(), err error) {
	f, ok := m.(Fixer)
	if !ok {
		return func() {}, nil
	}
	return f.Loosen, torch.Try(f.Fix)
}

// MeanPooled says whether a linear head on each position of the feature map gives score maps whose mean is the score.
func MeanPooled(m backbone.Model) bool {
	p, ok := m.(Pooler)
	return m.Head() != nil && (!ok || p.MeanPooled())
}

// Embed gives the logits, and label-wise embeddings where the network has them, else nil.
func Embed(m backbone.Model, x *torch.Tensor) (logits, embeddings *torch.Tensor) {
	if e, ok := m.(Embedder); ok {
		return e.Embed(x)
	}
	return m.Forward(x), nil
}

// explain gives the map of each label: the network's own, or class activation maps of a linear head.
func explain(m backbone.Model, x *torch.Tensor) (*Maps, error) {
	if e, ok := m.(Explainer); ok {
		return e.Explain(x)
	}
	head, f := m.Head(), m.FeatureMap(x)
	maps, err := decoder.CAM(f, head.Weight)
	if err != nil {
		return nil, err
	}
	return &Maps{"cam", f.Size(2), f.Size(3), maps, head.Forward(f.MeanDim([]int{2, 3}, false))}, nil
}

// explains says why a network has no map for a single label, nil where it has one.
func explains(m backbone.Model, head string) error {
	if _, ok := m.(Explainer); ok || m.Head() != nil {
		return nil
	}
	return fmt.Errorf("%w: %s has no map for a single label; train with --head %s or %s", ErrData, head, HeadDecoder, HeadLinear)
}
