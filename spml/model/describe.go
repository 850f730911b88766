package model

import (
	"fmt"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/internal/graph"
	"github.com/gospml/gospml/torch/nn"
)

// Description is a network for packages of this module that make other forms of it: the steps of its body, and what
// stands on the body's feature map. Without any of that the logits are the body's own.
type Description struct {
	Body *graph.Description

	Decoder *decoder.Decoder
	Latent  *decoder.Latent // beside Decoder, whose classifier then judges the mean of the latent
	ML      *decoder.MLDecoder
	Boosted *nn.Linear // judges each position; positive scores are raised by Boost before their mean
	Boost   float64
}

// Describe writes a network down. Its tensors are the network's own, or new ones, which are the caller's scope's. A
// network whose layers have no description is an error that wraps backbone.ErrForm.
func Describe(m backbone.Model) (d *Description, err error) {
	d = &Description{}
	body := m
	switch h := m.(type) {
	case *decoded:
		body, d.Decoder = h.Body, h.Decoder
	case *enhanced:
		body, d.Decoder, d.Latent = h.Body, h.Decoder, h.Latent
	case *grouped:
		body, d.ML = h.Body, h.ML
	case *boosted:
		body, d.Boosted, d.Boost = h.Body, h.Body.Head(), h.spec.Boost
	case *clipClassifier:
		return d, fmt.Errorf("%w of what is made of a CLIP", backbone.ErrForm)
	}
	d.Body, err = backbone.Describe(body)
	return d, err
}
