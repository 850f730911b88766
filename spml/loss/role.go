package loss

import "github.com/gospml/gospml/torch"

// Values of ROLE's parameter "table".
const (
	TableAuto = iota
	TableDense
	TableLazy
)

// Regularised online label estimation.
func init() {
	mustRegister(Entry{
		ID:         "role",
		WholeBatch: true,
		Aliases:    []string{"regularized-online-label-estimation", "role+linearinit", "role-li"},
		Title:      "regularised online label estimation",
		Formula:    "½(L_f + L_g): L_f = y·sn + sg(θ)·sn + (1-sg(θ))·sp plus R_k(p), L_g the same with p and θ = σ(u) exchanged",
		Source:     "Cole et al. 2021",
		Notes: "Observed positives enter twice. The table of u is one dense parameter: with Adam every step moves " +
			"all its rows. SMILE's and MIME's copies take the classifier's cross term only where y = 0; here it is Cole's. " +
			"LinearInit trains head and table on frozen features first and hands both over from the best validation epoch. " +
			"R_k is not scaled by the reduction. A known negative enters twice too, with sp and σ(-u), has its cross " +
			"terms, and counts 0 in both m̂; the L48 benchmark's ROLE counts it. Parts: reg, the mean of both " +
			"regularisers.",
		Params: []Param{expectedPositives("k"), {
			Name: "table", Choices: []string{"auto", "dense", "lazy"},
			Doc: "how θ's table takes Adam's steps (read by the estimator): all rows in each, or a batch's alone, which is " +
				"the same to rounding; auto: lazy above 256 MB",
			Source: "ours, the papers' tables are dense; of ten million photos a dense step moves gigabytes",
		}},
		Forms: map[string]Form{"code": {Doc: "log epsilon 1e-5", LogEps: 1e-5}},
		Needs: Observed | Estimates,

		Estimator: "role", EstimatorNeeds: SampleIDs,
		Tables: []string{"Cole", "VLPL", "GR", "LAC"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				u := like(b.Estimate, z)
				half := func(z, other *torch.Tensor) *torch.Tensor {
					pos, neg := Positive(z, o.LogEps), Negative(z, o.LogEps)
					t, f := other.Sigmoid(), other.Neg().Sigmoid()
					return o.Reduce(observedOnly(b.Observed, z, pos, neg).Add(t.Mul(pos)).Add(f.Mul(neg)))
				}
				reg := b.bothCounts(z, u, v["k"])
				b.report("reg", reg)
				return half(z, like(b.frozen().Estimate.Detach(), z)).Add(half(u, b.constants())).MulScalar(0.5).Add(reg)
			}, nil
		},
		Fused: batchwise("role", 2, func(b *Batch) []*torch.Tensor { return []*torch.Tensor{b.Logits, b.Estimate, b.Observed} },
			fixed(func(v Values) []float64 { return []float64{v["k"]} }),
			func(v Values, _ Options) func(b *Batch, value *torch.Tensor) {
				return func(b *Batch, _ *torch.Tensor) {
					c := b.withoutRows()
					z := c.Z()
					b.report("reg", c.bothCounts(z, like(c.Estimate, z), v["k"]))
				}
			}),
	})
}

// bothCounts is the mean of the two regularisers, of the scores σ(z) and of the estimates σ(u).
func (b *Batch) bothCounts(z, u *torch.Tensor, k float64) *torch.Tensor {
	return countRegulariser(z, b.Observed, k).Add(countRegulariser(u, b.Observed, k)).MulScalar(0.5)
}
