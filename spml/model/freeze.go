package model

import (
	"fmt"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Freeze makes the form of a network that is for inference on this CPU alone, several times as fast; see
// [backbone.Freeze] for what it promises. A head over feature maps stays as it is and is shared with m. A network that
// has no such form (one that is made of a CLIP, or a backbone from outside) is an error that wraps backbone.ErrForm.
func Freeze(m backbone.Model, dtype torch.DType) (backbone.Model, error) {
	switch h := m.(type) {
	case *decoded:
		body, err := backbone.Freeze(h.Body, dtype)
		return &decoded{Body: body, Decoder: h.Decoder, dim: h.dim}, err
	case *grouped:
		body, err := backbone.Freeze(h.Body, dtype)
		return &grouped{Body: body, ML: h.ML, dim: h.dim}, err
	}
	return backbone.Freeze(m, dtype)
}

// FreezeOnly is Freeze of a network that nothing else uses: the tensors that its frozen form does not need are freed. A
// network without a frozen form, or on another device than the CPU, comes back as it is; plain says why, nil elsewhere.
func FreezeOnly(m backbone.Model, dtype torch.DType) (_ backbone.Model, plain error) {
	for _, p := range nn.Parameters(m) {
		if p.Device().Type != torch.DeviceCPU || p.DType() != torch.Float32 {
			return m, fmt.Errorf("%w of %v numbers on %v", backbone.ErrForm, p.DType(), p.Device())
		}
	}
	f, err := Freeze(m, dtype)
	if err != nil {
		return m, err
	}
	nn.Walk(Base(m), func(e nn.Entry) { e.Tensor.Free() })
	return f, nil
}

// threads is a frozen network that computes with n threads wherever it is called.
func threads(m backbone.Model, n int) backbone.Model {
	switch h := m.(type) {
	case *decoded:
		return &decoded{Body: backbone.Threads(h.Body, n), Decoder: h.Decoder, dim: h.dim}
	case *grouped:
		return &grouped{Body: backbone.Threads(h.Body, n), ML: h.ML, dim: h.dim}
	}
	return backbone.Threads(m, n)
}
