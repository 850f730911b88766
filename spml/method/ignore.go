package method

import (
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

func init() {
	mask := func(v loss.Values) label.PositiveMask {
		return label.PositiveMask{Threshold: v["mask_threshold"], Batch: v["normalise"] != 0}
	}
	mustRegister(Method{
		ID: "ignore", Gives: loss.NegativeMask, Mask: mask,
		View: func(string) string { return "ignore" },
		Single: func(v loss.Values) string {
			if !mask(v).Batch {
				return ""
			}
			return "normalise=batch: the masks of a batch depend on all its photos, and processes see a part each; start it " +
				"without a launcher, or take normalise=image"
		},
		Estimator: func(s *Setup) (Estimator, error) {
			v := s.Values
			return label.NewGaps(s.Data.C(), torch.Float32, s.Device, label.GapConfig{
				GapLambda: v["gap_lambda"], AvgLambda: v["avg_lambda"], Warmup: int(v["warmup"]),
				Keep: v["reject"] == 0, GapOnly: v["lat"] == 0, Debias: v["debias"] != 0,
			}, s.Note)
		},
	})
}
