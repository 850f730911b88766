package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
)

func init() {
	for _, id := range []string{"en", "en-cl"} {
		mustRegister(Method{ID: id, Gives: loss.NegativeMask | loss.Averages, Estimator: func(s *Setup) (Estimator, error) {
			return label.NewExpected(s.Observed(), s.Values["k"], s.Values["mu"], 0)
		}})
	}
	mustRegister(Method{ID: "en-scl", Gives: loss.NegativeMask | loss.ScoreMaps | loss.HeatMaps, Estimator: func(s *Setup) (Estimator, error) {
		side := label.HeatSide
		if s.Frozen {
			side = 1
			s.Note("score maps of pooled features have one position, so the spatial consistency is that of the scores (en-cl)")
		}
		return label.NewExpected(s.Observed(), s.Values["k"], s.Values["mu"], side)
	}})
}
