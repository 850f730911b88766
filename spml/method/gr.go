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
			if v["schedule"] != loss.ScheduleLearned {
				return ""
			}
			return fmt.Sprintf("schedule=%d: the schedule's parameters are learned in a single process; start it without a launcher", loss.ScheduleLearned)
		},
		Estimator: func(s *Setup) (Estimator, error) {
			if s.Values["schedule"] != loss.ScheduleLearned {
				return label.None{}, nil
			}
			points, err := loss.ScheduleOf(s.Values)
			if err != nil {
				return nil, err
			}
			return label.NewLearnedSchedule(points)
		},
	})
}
