package loss

import "github.com/gospml/gospml/torch"

// AN plus a norm of the parameters.
func init() {
	for _, n := range []struct {
		id, title, formula string
		norm               func(*torch.Tensor) *torch.Tensor
		byData             map[string]float64
		source             string
	}{
		{"l1r", "assume negative with an L1 penalty", "y·sn + (1-y)·sp, plus λ·Σ|θ|", (*torch.Tensor).Abs, perData(1e-6, 1e-7, 1e-7, 1e-9), "paper, em Sec. C.3: L1R strength"},
		{"l2r", "assume negative with an L2 penalty", "y·sn + (1-y)·sp, plus λ·Σθ²", (*torch.Tensor).Square, perData(1e-6, 1e-7, 1e-6, 1e-8), "paper, em Sec. C.3: L2R strength"},
	} {
		penalty := func(b *Batch, v Values) *torch.Tensor {
			var reg *torch.Tensor
			for _, p := range b.Parameters {
				s := n.norm(wide(p)).Sum()
				if reg == nil {
					reg = s
				} else {
					reg = reg.Add(s)
				}
			}
			reg = reg.MulScalar(v["lam"])
			b.report("reg", reg)
			return reg
		}
		an := pointwise("an", observedLabels, fixed(func(Values) []float64 { return []float64{1} }))
		mustRegister(Entry{
			ID:      n.id,
			Title:   n.title,
			Formula: n.formula,
			Source:  "Zhou et al. 2022, supplement",
			Notes:   "One line in the paper and no code: which parameters, sum or mean and a factor ½ are open. Here: the sum over Batch.Parameters, no ½. The supplement prints five λ of L2R for four data sets. With Adam this is not decoupled weight decay. Part: reg.",
			Params:  []Param{{Name: "lam", Doc: "λ", Source: n.source, Default: 1e-6, ByData: n.byData, Max: inf}},
			Needs:   Observed | ModelParameters,
			Tables:  []string{"EM", "VLPL"},
			New: func(v Values, o Options) (Func, error) {
				return func(b Batch) *torch.Tensor {
					an := o.Reduce(weightedNegatives(&b, 1, o.LogEps))
					return an.Add(penalty(&b, v))
				}, nil
			},
			Fused: &FusedForm{Op: "spml::an", New: func(v Values, o Options) Pass {
				p := an.New(v, o)
				return Pass{
					Value: func(b *Batch) *torch.Tensor {
						if b.padding() {
							return p.Value(b)
						}
						return p.Value(b).Add(penalty(b, v))
					},
					ValueGrad: func(b *Batch) (value, grad *torch.Tensor) {
						value, grad = p.ValueGrad(b)
						if b.padding() {
							return value, grad
						}
						return value.Add(penalty(b, v).Detach()), grad
					},
				}
			}},
		})
	}
}
