package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// emThreshold is where the family of EM counts a label as present: its negatives sit near one half.
const emThreshold = 0.75

func init() {
	mustRegister(Method{ID: "em", Threshold: emThreshold})
	mustRegister(Method{ID: "em-apl", Threshold: emThreshold, Gives: loss.SoftNegatives, Estimator: func(s *Setup) (Estimator, error) {
		return label.NewAPL(s.Observed(), torch.Float32, label.APLConfig{Theta: s.Values["theta"], Epochs: s.Epochs, Warmup: int(s.Values["warmup"])})
	}})
}
