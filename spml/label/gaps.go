package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// GapConfig are the numbers of IGNORE's thresholds.
type GapConfig struct {
	GapLambda, AvgLambda float64 // share of the past in τ and in μ
	Warmup               int     // epochs in which all labels are kept
	Keep                 bool    // all labels are kept in every epoch
	GapOnly              bool    // a logit below its class's average may be left out too
	Debias               bool    // averages are divided by 1 - λ^n
}

// Gaps are IGNORE's thresholds, running averages over steps: τ of the gap |z - z_m| of observed positives, z_m the
// logit
// of the picture masked to its positive, and μ of each class's logit. An unknown label is left out of the negatives
// where its gap is above τ and its logit above μ.
//
// Source: Song et al. 2024 (IGNORE), released code. A step without a positive leaves τ as it is; there it became NaN.
type Gaps struct {
	None
	c       GapConfig
	tau, mu *torch.Tensor // [1], [C]
	n       *torch.Tensor // [2]: updates of τ, of μ
	left    *torch.Tensor // [2]: labels left out, unknown labels; of the epoch
	note    func(string)
}

// NewGaps starts with averages of 0 for a number of classes. note, if not nil, is told after each epoch what share of
// the unknown labels was left out.
func NewGaps(classes int, dtype torch.DType, d torch.Device, c GapConfig, note func(string)) (*Gaps, error) {
	for _, l := range []float64{c.GapLambda, c.AvgLambda} {
		if !(l >= 0 && l <= 1) {
			return nil, fmt.Errorf("label: λ is %v, want 0 to 1", l)
		}
	}
	g := &Gaps{c: c, note: note}
	err := build(func(s *torch.Arena) {
		g.tau, g.mu = torch.Zeros(torch.S(1), dtype, d), torch.Zeros(torch.S(classes), dtype, d)
		g.n, g.left = torch.Zeros(torch.S(2), torch.Float64, d), torch.Zeros(torch.S(2), torch.Float64, d)
		s.Keep(g.tau, g.mu, g.n, g.left)
	})
	return g, err
}

// Thresholds are τ [1] and μ [C] as a step reads them.
func (g *Gaps) Thresholds() (tau, mu *torch.Tensor) {
	if !g.c.Debias {
		return g.tau, g.mu
	}
	of := func(t *torch.Tensor, lambda float64, i int) *torch.Tensor {
		// 1 - λ^n
		share := g.n.Narrow(0, i, 1).MulScalar(math.Log(max(lambda, math.SmallestNonzeroFloat64))).Exp().RsubScalar(1)
		return t.Div(share.ToDType(t.DType()))
	}
	return of(g.tau, g.c.GapLambda, 0), of(g.mu, g.c.AvgLambda, 1)
}

// Update takes the logits of a step into the averages; all are [B, C].
func (g *Gaps) Update(z, masked, observed *torch.Tensor) error {
	return torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) {
				z, masked := z.Detach().ToDType(g.tau.DType()), masked.Detach().ToDType(g.tau.DType())
				positive := observed.EqScalar(1).ToDType(z.DType())
				count := positive.Sum().Reshape(1)
				some := count.GtScalar(0)
				gap := z.Sub(masked).Abs().Mul(positive).Sum().Reshape(1).Div(count.ClampMin(1))
				g.tau.Copy_(torch.Where(some, g.tau.MulScalar(g.c.GapLambda).Add(gap.MulScalar(1-g.c.GapLambda)), g.tau))
				g.mu.Copy_(g.mu.MulScalar(g.c.AvgLambda).Add(z.MeanDim([]int{0}, false).MulScalar(1 - g.c.AvgLambda)))
				g.n.Copy_(g.n.Add(torch.Cat([]*torch.Tensor{some, some.OnesLike()}, 0).ToDType(torch.Float64)))
			})
		})
	})
}

// Rejected are the unknown labels [B, C] that thresholds τ [1] and μ [C] leave out; gapOnly leaves μ out.
func Rejected(z, masked, observed, tau, mu *torch.Tensor, gapOnly bool) *torch.Tensor {
	out := z.Detach().Sub(masked.Detach()).Abs().Gt(tau).LogicalAnd(observed.EqScalar(0))
	if gapOnly {
		return out
	}
	return out.LogicalAnd(z.Detach().Gt(mu))
}

// Fill updates the thresholds and marks the unknown labels that count as negatives.
func (g *Gaps) Fill(s *Step) error {
	b := s.Batch
	if s.Masked == nil {
		return fmt.Errorf("label: the model gives no logits of the masked view")
	}
	if err := g.Update(b.Logits, s.Masked, b.Observed); err != nil {
		return err
	}
	torch.NoGrad(func() {
		unknown := b.Observed.EqScalar(0)
		out := unknown.ZerosLike()
		if !g.c.Keep && s.Epoch > g.c.Warmup {
			tau, mu := g.Thresholds()
			out = Rejected(b.Logits.ToDType(tau.DType()), s.Masked.ToDType(tau.DType()), b.Observed, tau, mu, g.c.GapOnly)
		}
		b.Negative = unknown.LogicalAnd(out.LogicalNot()).ToDType(torch.Int8)
		g.left.Copy_(g.left.Add(torch.Stack([]*torch.Tensor{out.Sum(), unknown.Sum()}, 0).ToDType(torch.Float64)))
	})
	return nil
}

// End says what share of the unknown labels the epoch left out.
func (g *Gaps) End(epoch int, _ func() (*torch.Tensor, error)) error {
	return torch.Try(func() {
		n := torch.ToSlice[float64](g.left)
		g.left.Zero_()
		if g.note != nil && n[1] > 0 {
			g.note(fmt.Sprintf("epoch %d: %.2f %% of the unknown labels were left out of the negatives", epoch, 100*n[0]/n[1]))
		}
	})
}

// State holds the averages.
func (g *Gaps) State() State {
	return State{Tensors: map[string]*torch.Tensor{"tau": g.tau, "mu": g.mu, "n": g.n, "left": g.left}}
}

// LoadState restores them.
func (g *Gaps) LoadState(s State) error {
	own := g.State().Tensors
	for name, t := range own {
		if err := s.fits(name, t); err != nil {
			return err
		}
	}
	for name, t := range own {
		if err := s.restore(name, t); err != nil {
			return err
		}
	}
	return nil
}
