package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// Methods that raise labels: large-loss rejection and correction, SPLC.
func init() {
	raised := func(b *loss.Batch, _ loss.Values) *torch.Tensor { return b.Observed.EqScalar(1) }
	mustRegister(Method{ID: "ll-cp", PseudoPositives: raised, Estimator: func(s *Setup) (Estimator, error) { return label.NewLargeLoss(s.Observed()) }})
	mustRegister(Method{ID: "mime", Gives: loss.Latents, PseudoPositives: raised, Estimator: func(s *Setup) (Estimator, error) {
		return label.NewThreshold(s.Observed(), s.Values["theta"], int(s.Values["warmup"]))
	}})
	mustRegister(Method{ID: "splc", PseudoPositives: func(b *loss.Batch, v loss.Values) *torch.Tensor {
		if float64(b.Epoch-1) < v["change_epoch"] {
			return nil
		}
		return b.Logits.Detach().Sigmoid().GtScalar(v["tau"])
	}})
}

// Methods whose pseudo-labels an image-text model makes, or a file holds.
func init() {
	for _, id := range []string{"vlpl", "gpr"} {
		mustRegister(Method{ID: id, Gives: loss.PseudoLabels, Estimator: func(s *Setup) (Estimator, error) {
			if s.Labels.Open == nil {
				return vlm.NewFileLabels(s.Labels.File, s.Data, s.Rows, s.Device)
			}
			return vlm.NewLiveLabels(s.Context, vlm.Live{Data: s.Data, Rows: s.Rows, Device: s.Device, Open: s.Labels.Open, Settings: s.Labels.Settings, Flip: s.Flip, Note: s.Note})
		}})
	}
}
