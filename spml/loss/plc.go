package loss

import "github.com/gospml/gospml/torch"

// Pseudo-labelling consistency, the first stage of LAC.
func init() {
	mustRegister(Entry{
		ID:         "plc",
		WholeBatch: true,
		Aliases:    []string{"pseudo-label-consistency"},
		Title:      "pseudo-labelling consistency",
		Formula:    "AN(z_w, y) + λ·Σ M·BCE(z_s, h)/ΣM with a = sg(p_w) + y, M = 1(a ≥ δ or a < 1-δ), h = 1(a ≥ δ)",
		Source:     "Xie et al. 2022 (LAC), eqs. (1)-(4)",
		Notes:      "The paper (form=paper) takes unknown labels only, ≤ at 1-δ, and divides both terms by B. The code's mask holds every observed positive. Its images are not normalised. Parts: loss_an, loss_plc, mask, hard.",
		Params:     plcParams(0.6, "code, milkxie/SPML-LAC @ a630052, first_stage.py: threshold"),
		Forms: map[string]Form{
			"paper": {Doc: "unknown labels only, both terms divided by B", Set: Values{"form": 1}, Reduction: BatchMean},
		},
		Needs:  Observed | StrongView,
		Tables: []string{"LAC"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor { return plcValue(b, v, o) }, nil
		},
		Fused: plcForm(func(v Values, o Options) func(b *Batch, value *torch.Tensor) {
			return func(b *Batch, _ *torch.Tensor) { plcValue(*b.withoutRows(), v, o) } // its masks are as large as the batch
		}),
	})
}

func plcParams(delta float64, source string) []Param {
	return []Param{
		{Name: "delta", Doc: "δ, confidence of a pseudo-label", Source: source, Default: delta, Max: 1},
		{Name: "lam", Doc: "λ, weight of the consistency term", Source: "paper, lac Sec. 4.1: lambda_PLC, stage one", Default: 1, Max: inf},
		{Name: "form", Doc: "masks and sums", Source: "ours, the released code unless the paper's form is asked for", Choices: []string{"code", "paper"}},
	}
}

func plcValue(b Batch, v Values, o Options) *torch.Tensor {
	an, consistency, _ := plc(&b, v, o)
	return an.Add(consistency.MulScalar(v["lam"]))
}

// plcForm is the fused form of AN + λ·PLC.
func plcForm(report func(v Values, o Options) func(b *Batch, value *torch.Tensor)) *FusedForm {
	return batchwise("plc", 2, func(b *Batch) []*torch.Tensor { return []*torch.Tensor{b.Logits, b.Strong, b.Observed} },
		fixed(func(v Values) []float64 { return []float64{v["delta"], v["lam"], v["form"]} }), report)
}

// plc gives both terms and the hard labels.
func plc(b *Batch, v Values, o Options) (an, consistency, hard *torch.Tensor) {
	zs := wide(b.Strong)
	r := o.Reduction
	delta, paper := v["delta"], v.is("form")
	if paper {
		r = BatchMean
	}
	an = r.apply(weightedNegatives(b, 1, o.LogEps))
	a := b.constants().Sigmoid()
	var confident *torch.Tensor
	if paper {
		hard = a.GeScalar(delta)
		confident = hard.LogicalOr(a.LeScalar(1 - delta)).LogicalAnd(b.Observed.EqScalar(0))
	} else {
		a = a.Add(like(b.Observed, a))
		hard = a.GeScalar(delta)
		confident = hard.LogicalOr(a.LtScalar(1 - delta))
	}
	b.report("mask", confident)
	b.report("hard", hard)
	bce := torch.Where(hard, Positive(zs, o.LogEps), Negative(zs, o.LogEps))
	sum := mask(confident, zs).Mul(bce).Sum()
	if paper {
		consistency = sum.DivScalar(float64(zs.Size(0)))
	} else {
		consistency = sum.Div(mask(confident, zs).Sum().ClampMin(1))
	}
	b.report("loss_an", an)
	b.report("loss_plc", consistency)
	return an, consistency, hard
}
