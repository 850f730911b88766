package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
)

func init() {
	mustRegister(Method{ID: "crisp", Gives: loss.Priors, Estimator: func(s *Setup) (Estimator, error) {
		v := s.Values
		return label.NewPriors(s.Observed(), label.PriorConfig{
			Delta: v["delta"], Tau: v["tau"], Warmup: int(v["warmup"]), Every: int(v["every"]),
		}, s.Note)
	}})
}
