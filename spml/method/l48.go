package method

import (
	"fmt"

	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

func init() {
	corrects := func(v loss.Values) bool { return v["base"] == loss.L48LLCp }
	mustRegister(Method{
		ID: "l48", Gives: loss.GroupScores,
		PseudoPositives: func(b *loss.Batch, v loss.Values) *torch.Tensor {
			if !corrects(v) {
				return nil
			}
			return b.Observed.EqScalar(1)
		},
		Estimator: func(s *Setup) (Estimator, error) {
			observed, v := s.Observed(), s.Values
			group, err := groupsOf(s)
			if err != nil {
				return nil, err
			}
			var more Estimator
			if corrects(v) {
				if more, err = label.NewLargeLoss(observed); err != nil {
					return nil, err
				}
			}
			return label.NewGroups(observed, group, torch.Float32, label.GroupConfig{
				Rate: v["group_rate"], Start: v["group_start"], Last: v["group_rows"] != 0,
			}, more, s.Generator)
		},
	})
}

// groupsOf numbers the groups of the training rows, -1 for none: all of them where groups have no weight.
func groupsOf(s *Setup) ([]int, error) {
	group := make([]int, len(s.Rows))
	weighs := s.Values["group_weight"] != 0
	if weighs && s.Data.Groups == nil {
		return nil, &fault.Setting{Msg: fmt.Sprintf("group_weight=%v weighs what the photos of a group share, and the "+
			"data set names no groups: --data-options groups=FILE.csv with the columns filename and group",
			s.Values["group_weight"])}
	}
	number := map[int]int{}
	for i, r := range s.Rows {
		group[i] = -1
		if !weighs || s.Data.Groups[r] < 0 {
			continue
		}
		n, ok := number[s.Data.Groups[r]]
		if !ok {
			n = len(number)
			number[s.Data.Groups[r]] = n
		}
		group[i] = n
	}
	return group, nil
}
