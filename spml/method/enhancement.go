package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
)

// encoder is the loss of the step that smile-classifier takes beside its own.
const encoder = "smile-encoder"

func init() {
	given := loss.SoftLabels | loss.Latents | loss.BetaParameters
	mustRegister(Method{ID: "smile", Gives: given, Estimator: func(*Setup) (Estimator, error) { return label.None{}, nil }})
	mustRegister(Method{ID: encoder, Gives: given, PartOf: "smile-classifier"})
	mustRegister(Method{
		ID: "smile-classifier", Gives: given, FeaturesOnly: "enhances the labels on a graph of features",
		Estimator: func(s *Setup) (Estimator, error) {
			o := s.Options
			o.Form = ""
			l, err := loss.New(encoder, s.DataSet, nil, o)
			if err != nil {
				return nil, err
			}
			return label.NewEnhancer(s.Features, s.Data.C(), l, s.LR, s.Generator)
		},
	})
}
