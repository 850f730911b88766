package loss

import "github.com/gospml/gospml/torch"

// PriorsOfValidation is the value of CRISP's parameter "prior" that takes them from validation labels.
const PriorsOfValidation = 1

// CRISP: the mean score of each class is held at its estimated frequency.
func init() {
	mustRegister(Entry{
		ID:         "crisp",
		WholeBatch: true,
		Aliases:    []string{"class-priors", "class-prior-risk"},
		Title:      "class-prior risk (experimental)",
		Formula: "Σ_c [2π_c·mean_{y_c=1}(1 - p_c) + |mean p_c - π_c|], π estimated after each epoch; AN during " +
			"warm-up",
		Source: "Liu et al. 2023 (CRISP), arXiv 2309.13886, eq. (7)",
		Notes: "Experimental: no code is public, and the paper trains a modification of the risk (with logits and a " +
			"λ) whose formula no text at hand holds. This is its eq. (7) on a batch, which stands for all photos; the " +
			"sum over classes is the formula's own, whatever the reduction. The estimator is the paper's (Theorem 4.1, " +
			"Algorithm 1), and too high wherever a class's positives do not score above the rest: on drawn pictures, " +
			"from scratch, its frequencies add up to 9.3 labels a picture after one epoch of AN and to 3.5 after twelve " +
			"(true: 3.7); the risk then holds scores up, and the next estimates with them. It is the smaller part of " +
			"what CRISP loses there: -8.4 points of mAP beside AN with estimates, -6.1 with the frequencies of " +
			"validation labels (prior=validation, the paper's CRISP-VAL). At a third of AN's learning rate that is " +
			"+0.4, and after twelve epochs of warm-up +0.5 with estimates and +1.8 with true ones " +
			"(results/crisp_shapes.csv): warm up until AN has converged, with a low rate. A class without an estimate " +
			"is left out. Known negatives count 0 in the mean over all photos, as in the estimate; their own loss is " +
			"their mean score. Parts: positive_part, alignment_part.",
		Params: []Param{
			{Name: "warmup", Doc: "epochs of AN before the risk",
				Source: "ours, the paper warms up with AN and the text at hand has no number", Default: 1, Min: 1, Max: inf},
			{Name: "every", Doc: "epochs between two estimates (read by the estimator)",
				Source: "ours, after every epoch as in the paper's main table", Default: 1, Min: 1, Max: inf},
			{Name: "prior", Doc: "where the frequencies come from (read by the estimator)",
				Source:  "ours, the paper's own estimator; validation is its CRISP-VAL",
				Choices: []string{"estimated", "validation"}},
			{Name: "delta", Doc: "δ of the estimator's bounds (read by the estimator)",
				Source: "ours, the value of the paper's text", Default: 0.01, Min: 1e-12, Max: 1},
			{Name: "tau", Doc: "τ of the estimator's bounds (read by the estimator)",
				Source: "ours, the value of the paper's text", Default: 0.01, Max: inf},
		},
		Needs:     Observed | Epoch | Priors,
		Estimator: "priors", EstimatorNeeds: SampleIDs | Epoch | Previous,
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				if b.Epoch <= v.whole("warmup") {
					return o.Reduce(weightedNegatives(&b, 1, o.LogEps))
				}
				z := b.Z()
				given := like(b.Prior, z)
				known := mask(given.Eq(given), z) // NaN: no estimate
				prior := given.NanToNum(0, 0, 0)
				p, miss := z.Sigmoid(), z.Neg().Sigmoid()
				seen := columnMean(b.Observed.EqScalar(1), miss)
				positives := prior.Mul(seen).MulScalar(2)
				counted := torch.Where(b.Observed.EqScalar(-1), p.MulScalar(0), p)
				alignment := counted.MeanDim([]int{0}, false).Sub(prior).Abs()
				b.report("positive_part", positives)
				b.report("alignment_part", alignment)
				return known.Mul(positives.Add(alignment)).Add(columnMean(b.Observed.EqScalar(-1), p)).Sum()
			}, nil
		},
	})
}

// columnMean is the mean of each column's terms that count, 0 where none does.
func columnMean(counts, terms *torch.Tensor) *torch.Tensor {
	m := mask(counts, terms)
	return m.Mul(terms).SumDim([]int{0}, false).Div(m.SumDim([]int{0}, false).ClampMin(1))
}
