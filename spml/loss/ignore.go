package loss

import "github.com/gospml/gospml/torch"

const ignoreCode = "code, gyeong-ryeol-song/SPML-IGNORE @ 5bfa563, "

// IGNORE: unknown labels whose score falls when the picture's positive alone is shown are left out of the negatives.
func init() {
	mustRegister(Entry{
		ID:         "ignore",
		WholeBatch: true,
		Aliases:    []string{"spml-ignore", "information-gap"},
		Title:      "false negatives ignored by their information gap",
		Formula: "w_p·mean_{y=1} sn(z) + w_i·mean_kept AN(z_s, y) + w_c·mean (z_s - z)²; not kept: y = 0, |z - " +
			"z_m| > τ and z > μ, z_m of the picture masked to its positive",
		Source: "Song et al. 2024 (IGNORE), released code, ResNet form",
		Notes: "The paper's text was not at hand, and the code names settings for VOC alone. The code normalises " +
			"class maps over the batch's rows (form code): a mask then depends on who else is in the batch, and a batch with " +
			"one positive row keeps nothing; by default each picture is normalised by itself. No evidence says which is " +
			"better. τ and μ are averages with the share λ of the past: 0.999 is made for 300 steps an epoch; with " +
			"fewer, debias or a smaller λ. Each mean is over its own entries, whatever the reduction. Parts: spbc, " +
			"ignore, consistency.",
		Params: []Param{
			{Name: "spbc_weight", Doc: "w_p, weight of the positives of the weak view",
				Source: ignoreCode + "README.md: spbc_weight of the ResNet run on VOC", Default: 0.1, Max: inf},
			{Name: "ignore_weight", Doc: "w_i, weight of the labels that are kept",
				Source: ignoreCode + "config.py: ignore_weight", Default: 1, Max: inf},
			{Name: "reg_weight", Doc: "w_c, weight of the views' distance", Source: ignoreCode + "config.py: reg_weight",
				Default: 0.5, Max: inf},
			{Name: "strong", Doc: "the kept labels are judged on the strong view",
				Source: ignoreCode + "config.py: strong_aug", Default: 1, Choices: noYes},
			{Name: "reject", Doc: "leave labels out (read by the estimator)", Source: ignoreCode + "config.py: ignore",
				Default: 1, Choices: noYes},
			{Name: "lat", Doc: "only where z is above its class's average μ too (read by the estimator)",
				Source: ignoreCode + "config.py: lat", Default: 1, Choices: noYes},
			{Name: "warmup", Doc: "epochs in which all labels are kept (read by the estimator)",
				Source: ignoreCode + "config.py: warm_up", Default: 3, Max: inf},
			{Name: "gap_lambda", Doc: "λ of τ, the average gap of positives (read by the estimator)",
				Source: ignoreCode + "config.py: gap_lambda", Default: 0.999, Max: 1},
			{Name: "avg_lambda", Doc: "λ of μ, the average logit of a class (read by the estimator)",
				Source: ignoreCode + "config.py: avg_lambda", Default: 0.999, Max: 1},
			{Name: "debias", Doc: "divide both averages by 1 - λ^n, as Adam does (read by the estimator)",
				Source: "ours, small data sets take few steps", Choices: noYes},
			{Name: "mask_threshold", Doc: "what of the positive's map is kept (read where the mask is made)",
				Source: ignoreCode + "config.py: cam_threshold", Default: 0.8, Min: -1e3, Max: 1e3},
			{Name: "normalise", Doc: "over what maps are normalised (read where the mask is made)",
				Source: "ours, a mask that is the picture's own", Choices: []string{"image", "batch"}},
		},
		Forms: map[string]Form{"code": {Doc: "log epsilon 1e-5; maps normalised over the batch",
			Set: Values{"normalise": 1}, LogEps: 1e-5}},
		Needs:     Observed | NegativeMask | StrongView,
		Estimator: "gaps", EstimatorNeeds: Epoch,
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z, strong := b.Z(), wide(b.Strong)
				judged := z
				if v.is("strong") {
					judged = strong
				}
				kept := b.Observed.NeScalar(0).LogicalOr(b.Negative.EqScalar(1))
				spbc := meanWhere(b.Observed.EqScalar(1), Positive(z, o.LogEps))
				an := meanWhere(kept, torch.Where(b.Observed.EqScalar(1), Positive(judged, o.LogEps), Negative(judged, o.LogEps)))
				apart := strong.Sub(z).Square().Mean()
				b.report("spbc", spbc)
				b.report("ignore", an)
				b.report("consistency", apart)
				return spbc.MulScalar(v["spbc_weight"]).Add(an.MulScalar(v["ignore_weight"])).Add(apart.MulScalar(v["reg_weight"]))
			}, nil
		},
	})
}

// meanWhere is the mean of the terms that count, 0 where none does.
func meanWhere(counts, terms *torch.Tensor) *torch.Tensor {
	m := mask(counts, terms)
	return m.Mul(terms).Sum().Div(m.Sum().ClampMin(1))
}
