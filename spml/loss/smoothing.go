package loss

import "github.com/gospml/gospml/torch"

// smoothing are the parameters of the smoothed losses; smoothed gives their two targets.
func smoothing(source string, byData map[string]float64) []Param {
	return []Param{
		{Name: "ls_coef", Doc: "ε", Source: source, Default: 0.1, ByData: byData, Max: 1},
		{Name: "half", Doc: "ε/2 on each side instead of ε", Source: "code, elijahcole/single-positive-multi-label @ 89152d5, losses.py: targets 1 - ε and ε", Choices: noYes},
	}
}

var smoothingForms = map[string]Form{
	"paper": {Doc: "ε/2 on each side: targets 0.95 and 0.05", Set: Values{"half": 1}},
	"code":  {Doc: "log epsilon 1e-5; targets 0.9 and 0.1", LogEps: 1e-5},
}

func smoothed(v Values) (pos, neg float64) {
	e := v["ls_coef"]
	if v.is("half") {
		e /= 2
	}
	return 1 - e, e
}

func targets(v Values) []float64 {
	pos, neg := smoothed(v)
	return []float64{pos, neg, neg}
}

// Assume negative with smoothed targets.
func init() {
	mustRegister(Entry{
		ID:      "an-ls",
		Aliases: []string{"ls", "label-smoothing"},
		Title:   "assume negative with label smoothing",
		Formula: "τ·sn + (1-τ)·sp with τ = 1-ε where y = 1, ε elsewhere; gradient p - τ",
		Source:  "Cole et al. 2021",
		Notes:   "The paper's text smooths by ε/2 on each side (0.95, 0.05), the code by ε (0.9, 0.1), which is the default.",
		Params:  smoothing("paper, em Sec. C.3: LS coefficient", perData(0.1, 0.1, 0.1, 0.1)),
		Forms:   smoothingForms,
		Needs:   Observed,
		Tables:  []string{"Cole", "VLPL", "GR", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			pos, neg := smoothed(v)
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				return o.Reduce(torch.Where(b.Observed.EqScalar(1), CrossEntropy(z, pos, o.LogEps), CrossEntropy(z, neg, o.LogEps)))
			}, nil
		},
		Fused: pointwise("an_ls", observedLabels, fixed(targets)),
	})
	mustRegister(Entry{
		ID:      "n-ls",
		Aliases: []string{"negative-label-smoothing"},
		Title:   "assume negative with smoothed negatives",
		Formula: "sn where y = 1, sp where y = -1, else ε·sn + (1-ε)·sp",
		Source:  "Zhou et al. 2022, supplement",
		Notes:   "No released code. VLPL's table has one COCO value for LS and N-LS.",
		Params:  smoothing("paper, em Sec. C.3: N-LS coefficient", perData(0.3, 0.1, 0.1, 0.1))[:1],
		Needs:   Observed,
		Tables:  []string{"EM", "VLPL"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				smooth := CrossEntropy(z, v["ls_coef"], o.LogEps)
				return o.Reduce(ByLabel(b.Observed, Positive(z, o.LogEps), Negative(z, o.LogEps), smooth))
			}, nil
		},
		Fused: pointwise("an_ls", observedLabels, fixed(func(v Values) []float64 { return []float64{1, v["ls_coef"], 0} })),
	})
}
