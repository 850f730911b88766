package method

import (
	"math"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
)

func init() {
	mustRegister(Method{ID: "crisp", Gives: loss.Priors, Estimator: func(s *Setup) (Estimator, error) {
		v := s.Values
		c := label.PriorConfig{Delta: v["delta"], Tau: v["tau"], Warmup: int(v["warmup"]), Every: int(v["every"])}
		if v["prior"] == loss.PriorsOfValidation {
			var err error
			if c.Given, err = validationPriors(s.Data); err != nil {
				return nil, err
			}
		}
		return label.NewPriors(s.Observed(), c, s.Note)
	}})
}

// validationPriors are the shares of the validation rows that have each class, NaN where none has: the paper's
// CRISP-VAL.
func validationPriors(d *data.Dataset) ([]float64, error) {
	rows := d.Rows(data.Val)
	if len(rows) == 0 || !d.FullyLabelled(rows) {
		return nil, fault.Settingf("prior=validation takes the class frequencies of validation rows with full labels, and "+
			"%s has none; leave it out", d.Name)
	}
	share := make([]float64, d.C())
	for i, y := range d.Gather(d.Labels, rows) {
		if y == 1 {
			share[i%len(share)] += 1 / float64(len(rows))
		}
	}
	for c, x := range share {
		if x == 0 {
			share[c] = math.NaN()
		}
	}
	return share, nil
}
