package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Heads of this package.
const (
	HeadLinear    = "linear" // the backbone's own, on its pooled features
	HeadDecoder   = "decoder"
	HeadMLDecoder = "ml-decoder"
	HeadBoostLU   = "boostlu"  // the backbone's own at each position of the feature map, positive scores raised
	HeadDualCoOp  = "dualcoop" // learned prompts through a frozen CLIP
)

// HeadSpec is what config.json says of a head that is not linear.
type HeadSpec struct {
	Head       string `json:"head,omitempty"`
	Dim        int    `json:"decoder_dim,omitempty"`
	Projection int    `json:"projection_dim,omitempty"` // of the decoder's embeddings; -1 = none
	// Latent is the width of a label's latent behind the decoder, of mime and smile; LatentBeta adds Beta distributions.
	Latent     int  `json:"latent_dim,omitempty"`
	LatentBeta bool `json:"latent_beta,omitempty"`
	// Boost is BoostLU's α; BoostEval applies it when the model is used, not while it is trained.
	Boost     float64 `json:"boost,omitempty"`
	BoostEval bool    `json:"boost_eval,omitempty"`
}

// NewHead gives a body a head that looks at its feature map. What it returns is the whole network: its tensors are
// saved and loaded by name, and it may say more of itself by the optional methods of this package (Splitter, Viewer,
// Explainer, Checkpointer). Weights are drawn from g; nil draws from libtorch's generator.
type NewHead func(body backbone.Model, s HeadSpec, classes int, g *torch.Generator) (backbone.Model, error)

var heads = struct {
	sync.RWMutex
	by map[string]NewHead
}{by: map[string]NewHead{
	HeadDecoder: func(body backbone.Model, s HeadSpec, classes int, g *torch.Generator) (backbone.Model, error) {
		d, err := decoder.New(decoder.Config{InFeatures: body.FeatureDim(), Classes: classes, Dim: s.Dim, Projection: s.Projection, Generator: g})
		if err != nil || s.Latent == 0 {
			return &decoded{Body: body, Decoder: d, dim: body.FeatureDim()}, err
		}
		l, err := decoder.NewLatent(d, s.Latent, s.LatentBeta)
		return &enhanced{Body: body, Decoder: d, Latent: l, dim: body.FeatureDim()}, err
	},
	HeadMLDecoder: func(body backbone.Model, s HeadSpec, classes int, g *torch.Generator) (backbone.Model, error) {
		d, err := decoder.NewML(decoder.MLConfig{InFeatures: body.FeatureDim(), Classes: classes, Dim: s.Dim, Dropout: 0.1, Generator: g})
		return &grouped{Body: body, ML: d, dim: body.FeatureDim()}, err
	},
	HeadBoostLU: func(body backbone.Model, s HeadSpec, _ int, _ *torch.Generator) (backbone.Model, error) {
		if !MeanPooled(body) {
			return nil, fmt.Errorf("--head %s needs a backbone whose features are the mean of its feature map: a ResNet, "+
				"MobileNetV2 or SqueezeNet", HeadBoostLU)
		}
		if !(s.Boost > 0) {
			return nil, fmt.Errorf("boost is %v, want a factor above 0", s.Boost)
		}
		return &boosted{Body: body, spec: s}, nil
	},
}}

// RegisterHead adds a head over feature maps, which runs and saved models then name. A name that is taken is an error.
func RegisterHead(name string, f NewHead) error {
	heads.Lock()
	defer heads.Unlock()
	if _, taken := heads.by[name]; taken || name == "" || name == HeadLinear || name == HeadDualCoOp || f == nil {
		return fmt.Errorf("model: the head %q is taken, or has no name or function", name)
	}
	heads.by[name] = f
	return nil
}

// MapHeads are the heads that look at feature maps, by name.
func MapHeads() []string {
	heads.RLock()
	defer heads.RUnlock()
	return slices.Sorted(maps.Keys(heads.by))
}

// WithHead gives a body the head of a spec. Without one, or with a linear one, the body keeps its own; any other takes
// its place.
func WithHead(body backbone.Model, s HeadSpec, classes int, g *torch.Generator) (backbone.Model, error) {
	if s.Head == "" || s.Head == HeadLinear || s.Head == HeadDualCoOp {
		return body, nil
	}
	heads.RLock()
	f := heads.by[s.Head]
	heads.RUnlock()
	if f == nil {
		return nil, fmt.Errorf("no head is called %q; there are %s, %s", s.Head, HeadLinear, strings.Join(MapHeads(), ", "))
	}
	m, err := f(body, s, classes, g)
	if err != nil {
		return nil, err
	}
	if _, keeps := m.(*boosted); !keeps {
		body.SetHead(nil)
	}
	return m, nil
}

// decoded is a body with LAC's label-wise decoder.
type decoded struct {
	Body    backbone.Model
	Decoder *decoder.Decoder

	dim int
}

func (h *decoded) Forward(x *torch.Tensor) *torch.Tensor {
	return h.Decoder.Forward(h.Body.FeatureMap(x), decoder.Want{}).Logits
}
func (h *decoded) FeatureMap(x *torch.Tensor) *torch.Tensor { return h.Body.FeatureMap(x) }
func (h *decoded) Features(x *torch.Tensor) *torch.Tensor   { return h.Body.Features(x) }
func (h *decoded) FeatureDim() int                          { return h.dim }
func (h *decoded) Head() *nn.Linear                         { return nil }
func (h *decoded) HeadKey() string                          { return "decoder" }
func (h *decoded) SetHead(*nn.Linear)                       {}
func (h *decoded) Base() backbone.Model                     { return h.Body }
func (h *decoded) CheckpointHead()                          { h.Decoder.Checkpointing = true }

func (h *decoded) Split() (body, head []*torch.Tensor) {
	return nn.Parameters(h.Body), nn.Parameters(h.Decoder)
}

func (h *decoded) Embed(x *torch.Tensor) (logits, embeddings *torch.Tensor) {
	out := h.Decoder.Forward(h.Body.FeatureMap(x), decoder.Want{Embeddings: true})
	return out.Logits, out.Z
}

func (h *decoded) Explain(x *torch.Tensor) (*Maps, error) {
	m := h.Body.FeatureMap(x)
	out := h.Decoder.Forward(m, decoder.Want{Attention: true})
	return &Maps{"attention", m.Size(2), m.Size(3), out.Attention, out.Logits}, nil
}

// grouped is a body with ML-Decoder, whose queries answer for groups of classes.
type grouped struct {
	Body backbone.Model
	ML   *decoder.MLDecoder

	dim int
}

func (h *grouped) Forward(x *torch.Tensor) *torch.Tensor    { return h.ML.Forward(h.Body.FeatureMap(x)) }
func (h *grouped) FeatureMap(x *torch.Tensor) *torch.Tensor { return h.Body.FeatureMap(x) }
func (h *grouped) Features(x *torch.Tensor) *torch.Tensor   { return h.Body.Features(x) }
func (h *grouped) FeatureDim() int                          { return h.dim }
func (h *grouped) Head() *nn.Linear                         { return nil }
func (h *grouped) HeadKey() string                          { return "ml" }
func (h *grouped) SetHead(*nn.Linear)                       {}
func (h *grouped) Base() backbone.Model                     { return h.Body }

func (h *grouped) Split() (body, head []*torch.Tensor) {
	return nn.Parameters(h.Body), nn.Parameters(h.ML)
}
