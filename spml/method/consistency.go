package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// lacProjection is the width of LAC's label-wise embeddings.
const lacProjection = 128

// lacView is LAC's second view: that of the released code, or as printed.
func lacView(form string) string {
	if form == "paper" {
		return "lac-paper"
	}
	return "lac"
}

func init() {
	confident := func(b *loss.Batch, v loss.Values) *torch.Tensor {
		return b.Logits.Detach().Sigmoid().GeScalar(v["delta"])
	}
	mustRegister(Method{ID: "plc", PseudoPositives: confident, View: lacView})
	// Source: Xie et al. 2022 (LAC), section 4.1: pseudo-labelling consistency first, then the contrast from its best
	// weights.
	mustRegister(Method{
		ID: "lac", Gives: loss.Embeddings, PseudoPositives: confident, First: "plc", Projection: lacProjection,
		View: lacView,
		Estimator: func(s *Setup) (Estimator, error) {
			return label.NewPairs(s.QueueSize, lacProjection, s.Values["delta"], s.Device)
		},
	})
}
