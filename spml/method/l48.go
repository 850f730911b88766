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
			group, err := groupsOf(s, v["group_weight"])
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

// grouped is the method's estimator with the scores of groups around it. They begin and move as l48's do in the form.
func (m *Method) grouped(s *Setup) (Estimator, error) {
	group, err := groupsOf(s, s.Options.GroupWeight)
	if err != nil {
		return nil, err
	}
	own := *s
	own.Options.GroupWeight, own.Saved = 0, label.SavedBeside(s.Saved)
	more, err := m.New(&own)
	if err != nil {
		return nil, err
	}
	c := label.GroupConfig{Rate: s.GroupRate, Start: 0.5}
	if s.Options.Form == "code" {
		c.Start, c.Last = -1, true
	}
	return label.NewGroups(s.Observed(), group, torch.Float32, c, more, s.Generator)
}

// groupsOf numbers the groups of the training rows, -1 for none: all of them where groups have no weight.
func groupsOf(s *Setup, weight float64) ([]int, error) {
	group := make([]int, len(s.Rows))
	weighs := weight != 0
	if weighs && s.Data.Groups == nil {
		return nil, &fault.Setting{Msg: fmt.Sprintf("group_weight=%v weighs what the photos of a group share, and the "+
			"data set names no groups: --data-options groups=FILE.csv with the columns filename and group", weight)}
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
