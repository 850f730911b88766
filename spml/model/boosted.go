package model

import (
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// boosted is a body whose linear head judges each position of the feature map; positive scores are raised before the
// mean. Its tensors are those of the body alone, under the same names, so that weights fit both ways.
type boosted struct {
	Body     backbone.Model `torch:"."`
	Training bool           // set by nn.SetTraining

	spec HeadSpec
}

// Maps are the class maps [B, C, h, w] whose means are the logits.
func (h *boosted) Maps(x *torch.Tensor) *torch.Tensor {
	l := h.Body.Head()
	maps := torch.Linear(h.Body.FeatureMap(x).Permute(0, 2, 3, 1), l.Weight, l.Bias).Permute(0, 3, 1, 2)
	if h.spec.BoostEval && h.Training {
		return maps
	}
	return decoder.Boost(maps, h.spec.Boost)
}

func (h *boosted) Forward(x *torch.Tensor) *torch.Tensor {
	return h.Maps(x).MeanDim([]int{2, 3}, false)
}
func (h *boosted) FeatureMap(x *torch.Tensor) *torch.Tensor { return h.Body.FeatureMap(x) }
func (h *boosted) Features(x *torch.Tensor) *torch.Tensor   { return h.Body.Features(x) }
func (h *boosted) FeatureDim() int                          { return h.Body.FeatureDim() }
func (h *boosted) Head() *nn.Linear                         { return nil } // the scores take more than pooled features
func (h *boosted) HeadKey() string                          { return h.Body.HeadKey() }
func (h *boosted) SetHead(*nn.Linear)                       {}
func (h *boosted) Base() backbone.Model                     { return h.Body }

func (h *boosted) Split() (body, head []*torch.Tensor) { return backbone.Split(h.Body) }

func (h *boosted) Explain(x *torch.Tensor) (*Maps, error) {
	m := h.Maps(x)
	return &Maps{"cam", m.Size(2), m.Size(3), m, m.MeanDim([]int{2, 3}, false)}, nil
}
