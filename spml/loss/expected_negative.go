package loss

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

var distances = []string{"l1", "mse", "bce"}

// Distance compares σ(z) with a target h in [0, 1], elementwise: "l1" is |p-h|, "mse" its square, "bce" h·sn +
// (1-h)·sp.
func Distance(kind string, z, h *torch.Tensor, eps float64) (*torch.Tensor, error) {
	h = like(h, z)
	switch kind {
	case "l1":
		return z.Sigmoid().Sub(h).Abs(), nil
	case "mse":
		return z.Sigmoid().Sub(h).Square(), nil
	case "bce":
		return SoftCrossEntropy(z, h, eps), nil
	}
	return nil, fmt.Errorf("loss: distance %q is none of l1, mse, bce", kind)
}

// expectedNegative is y·sn + ẑ·sp.
func expectedNegative(b *Batch, eps float64) *torch.Tensor {
	z := b.Z()
	neg := Negative(z, eps)
	return ByLabel(b.Observed, Positive(z, eps), neg, mask(b.Negative.EqScalar(1), z).Mul(neg))
}

// Expected negatives, alone and with consistency over epochs: of scores (CL) or of score maps (SCL).
func init() {
	const unverified = "The paper's text and code were not at hand: distance, weight and μ follow descriptions by others, and published numbers cannot be claimed."
	average := Param{Name: "mu", Doc: "μ of the running average (read by the estimator)", Source: "ours, no code and no text of the paper was at hand", Default: 0.8, Max: 1}
	consistency := []Param{
		{Name: "cons_weight", Doc: "ω", Source: "ours, no code and no text of the paper was at hand", Default: 1, Max: inf},
		{Name: "cons_kind", Doc: "distance d", Source: "ours, no code and no text of the paper was at hand", Choices: distances},
		average, expectedPositives("k"),
	}
	mustRegister(Entry{
		ID:        "en",
		Aliases:   []string{"expected-negative"},
		Title:     "expected negatives",
		Formula:   "y·sn + ẑ·sp with ẑ = 1 on all but the N_c best-scored unknown images of each class",
		Source:    "Verelst et al. 2023",
		Notes:     unverified + " N_c = round(k·observed positives of c), clipped; epoch 1, without averages, is trained as AN.",
		Params:    []Param{average, expectedPositives("k")},
		Needs:     Observed | NegativeMask,
		Estimator: "expected-negative", EstimatorNeeds: SampleIDs | Epoch | Previous,
		Tables: []string{"SCL"},
		New: func(_ Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor { return o.Reduce(expectedNegative(&b, o.LogEps)) }, nil
		},
		Fused: pointwise("an_masked", func(b *Batch) (first, second *torch.Tensor) { return b.Observed, b.Negative }, fixed(func(Values) []float64 { return []float64{1} })),
	})
	mustRegister(Entry{
		ID:        "en-cl",
		Aliases:   []string{"en+cl", "consistency-loss"},
		Title:     "expected negatives with consistency loss",
		Formula:   "y·sn + ẑ·sp + ω·d(p, h), h the image's running average score before this visit",
		Source:    "Verelst et al. 2023",
		Notes:     unverified,
		Params:    consistency,
		Needs:     Observed | NegativeMask | Averages,
		Estimator: "expected-negative", EstimatorNeeds: SampleIDs | Epoch | Previous,
		Tables: []string{"SCL", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			kind := distances[v.whole("cons_kind")]
			return func(b Batch) *torch.Tensor {
				d, _ := Distance(kind, b.Z(), b.Average, o.LogEps)
				return o.Reduce(expectedNegative(&b, o.LogEps).Add(d.MulScalar(v["cons_weight"])))
			}, nil
		},
	})
	mustRegister(Entry{
		ID:        "en-scl",
		Aliases:   []string{"en+scl", "scl", "spatial-consistency-loss"},
		Title:     "expected negatives with spatial consistency loss",
		Formula:   "y·sn + ẑ·sp + ω/G²·Σ d(σ(Z), h) over score maps Z, whose mean is z",
		Source:    "Verelst et al. 2023",
		Notes:     unverified + " LAC's text takes the average to be of the model; here it is of the maps. Part: scl.",
		Params:    consistency,
		Needs:     Observed | NegativeMask | ScoreMaps | HeatMaps,
		Estimator: "heat-maps", EstimatorNeeds: SampleIDs | Epoch | Previous,
		Tables: []string{"SCL", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			kind := distances[v.whole("cons_kind")]
			return func(b Batch) *torch.Tensor {
				d, _ := Distance(kind, wide(b.Maps), b.Heat, o.LogEps)
				scl := o.Reduce(d.MeanDim([]int{2, 3}, false))
				b.report("scl", scl)
				return o.Reduce(expectedNegative(&b, o.LogEps)).Add(scl.MulScalar(v["cons_weight"]))
			}, nil
		},
	})
}
