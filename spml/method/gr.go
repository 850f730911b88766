package method

import (
	"fmt"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
)

func init() {
	mustRegister(Method{
		ID: "gr",
		Single: func(v loss.Values) string {
			if v["schedule"] != loss.PointsLearned {
				return ""
			}
			const why = "schedule=%d: the schedule's parameters are learned in a single process; start it without a launcher"
			return fmt.Sprintf(why, loss.PointsLearned)
		},
		Estimator: func(s *Setup) (Estimator, error) {
			if s.Values["schedule"] != loss.PointsLearned {
				return label.None{}, nil
			}
			points, err := loss.PointsOf(s.Values)
			if err != nil {
				return nil, err
			}
			return label.NewLearnedPoint(points)
		},
	})
}
