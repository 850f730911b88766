package model

import (
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// enhanced is a body with LAC's label-wise decoder and a latent for each label, the network of mutual label
// enhancement. In use the latent is its mean.
type enhanced struct {
	Body    backbone.Model
	Decoder *decoder.Decoder
	Latent  *decoder.Latent

	dim int
}

// Labelwise are the embeddings [B, C, D] of images.
func (h *enhanced) Labelwise(x *torch.Tensor) *torch.Tensor {
	return h.Decoder.Forward(h.Body.FeatureMap(x), decoder.Want{LabelwiseOnly: true}).Labelwise
}

// Latents are the distributions of embeddings f.
func (h *enhanced) Latents(f *torch.Tensor) decoder.Latents { return h.Latent.Forward(f) }

// LatentParameters are those of Latents and Logits.
func (h *enhanced) LatentParameters() []*torch.Tensor {
	return append(nn.Parameters(h.Latent), nn.Parameters(h.Decoder.FC)...)
}

// Logits are those of embeddings f and latents z.
func (h *enhanced) Logits(f, z *torch.Tensor) *torch.Tensor {
	return h.Decoder.FC.Forward(h.Latent.Judged(f, z))
}

// Forward gives the logits of images.
func (h *enhanced) Forward(x *torch.Tensor) *torch.Tensor {
	f := h.Labelwise(x)
	return h.Logits(f, h.Latent.Forward(f).Mean)
}

// FeatureMap is the body's.
func (h *enhanced) FeatureMap(x *torch.Tensor) *torch.Tensor { return h.Body.FeatureMap(x) }

// Features are the body's.
func (h *enhanced) Features(x *torch.Tensor) *torch.Tensor { return h.Body.Features(x) }

// FeatureDim is the body's.
func (h *enhanced) FeatureDim() int { return h.dim }

// Head is nil: no linear map of the features.
func (h *enhanced) Head() *nn.Linear { return nil }

// HeadKey is "decoder".
func (h *enhanced) HeadKey() string { return "decoder" }

// SetHead does nothing.
func (h *enhanced) SetHead(*nn.Linear) {}

// Base is the body.
func (h *enhanced) Base() backbone.Model { return h.Body }

// CheckpointHead saves memory in the decoder.
func (h *enhanced) CheckpointHead() { h.Decoder.Checkpointing = true }

// Split lists the body's parameters, and those of decoder and latents.
func (h *enhanced) Split() (body, head []*torch.Tensor) {
	return nn.Parameters(h.Body), append(nn.Parameters(h.Decoder), nn.Parameters(h.Latent)...)
}

// Explain gives the decoder's attention.
func (h *enhanced) Explain(x *torch.Tensor) (*Maps, error) {
	m := h.Body.FeatureMap(x)
	out := h.Decoder.Forward(m, decoder.Want{Attention: true, LabelwiseOnly: true})
	z := h.Logits(out.Labelwise, h.Latent.Forward(out.Labelwise).Mean)
	return &Maps{"attention", m.Size(2), m.Size(3), out.Attention, z}, nil
}
