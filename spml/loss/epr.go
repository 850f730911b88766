package loss

import "github.com/gospml/gospml/torch"

// Expected positive regularisation.
func init() {
	mustRegister(Entry{
		ID:         "epr",
		WholeBatch: true,
		Aliases:    []string{"expected-positive-regularization", "expected-positive-regularisation"},
		Title:      "expected positive regularisation",
		Formula:    "y·sn, plus R_k = ((m̂-k)/C)² with m̂ the mean number of predicted positives of the batch",
		Source:     "Cole et al. 2021",
		Notes: "m̂ belongs to the batch, so results depend on its size; R_k is not scaled by the reduction. Known " +
			"negatives have sp and count 0 in m̂. GR's and AEVLP's repositories have a function of this name without the " +
			"regulariser. Parts: main, reg.",
		Params: []Param{expectedPositives("k")},
		Forms:  map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs:  Observed,
		Tables: []string{"Cole", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				terms := observedOnly(b.Observed, z, Positive(z, o.LogEps), Negative(z, o.LogEps))
				main, reg := o.Reduce(terms), countRegulariser(z, b.Observed, v["k"])
				b.report("main", main)
				b.report("reg", reg)
				return main.Add(reg)
			}, nil
		},
		Fused: batchwise("epr", 1, func(b *Batch) []*torch.Tensor { return []*torch.Tensor{b.Logits, b.Observed} },
			fixed(func(v Values) []float64 { return []float64{v["k"]} }),
			func(v Values, _ Options) func(b *Batch, value *torch.Tensor) {
				return func(b *Batch, value *torch.Tensor) { reportRegularised(b, value, v["k"], 1) }
			}),
	})
}

// expectedPositives is the parameter k, the mean number of positives of an image.
func expectedPositives(name string) Param {
	return Param{Name: name, Doc: "expected number of positives of an image",
		Source: "code, elijahcole/single-positive-multi-label @ 89152d5, train.py: expected_num_pos", Default: 1.5,
		ByData: perData(1.5, 2.9, 1.9, 31.4), Max: inf, Positives: true}
}

// observedOnly keeps the terms of observed labels; unknown ones count 0 (NaN stays NaN).
func observedOnly(y, z, pos, neg *torch.Tensor) *torch.Tensor {
	return torch.Where(y.EqScalar(-1), neg, mask(y.EqScalar(1), z).Mul(pos))
}
