package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// lacProjection is the width of LAC's label-wise embeddings.
const lacProjection = 128

func init() {
	confident := func(b *loss.Batch, v loss.Values) *torch.Tensor {
		return b.Logits.Detach().Sigmoid().GeScalar(v["delta"])
	}
	mustRegister(Method{ID: "plc", PseudoPositives: confident})
	// Source: Xie et al. 2022 (LAC), section 4.1: pseudo-labelling consistency first, then the contrast from its best
	// weights.
	mustRegister(Method{
		ID: "lac", Gives: loss.Embeddings, PseudoPositives: confident, First: "plc", Projection: lacProjection,
		Estimator: func(s *Setup) (Estimator, error) {
			return label.NewPairs(s.QueueSize, lacProjection, s.Values["delta"], s.Device)
		},
	})
}
