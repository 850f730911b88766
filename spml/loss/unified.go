package loss

import "github.com/gospml/gospml/torch"

// Unified is the unknown part of GR's framework (Chen et al. 2024, Table 1): v·[ k̂·L₂ + (1-k̂)·L₃ ]. Every loss here
// is reduce{ L₁ where y = 1, Unified elsewhere } with its own k̂, v and L; Row has the table's rows.
func Unified(k, v, l2, l3 *torch.Tensor) *torch.Tensor {
	return v.Mul(k.Mul(l2).Add(k.RsubScalar(1).Mul(l3)))
}

// Row is one line of the framework's table: functions of the logits, and of p = sg(σ(z)) for k̂ and v. A nil L2 is
// unused.
type Row struct {
	K, V       func(p *torch.Tensor) *torch.Tensor
	L1, L2, L3 func(z *torch.Tensor) *torch.Tensor
}

// Loss is the mean over the matrix for labels y in {0, 1}.
func (r Row) Loss(z, y *torch.Tensor) *torch.Tensor {
	z = wide(z)
	p := z.Detach().Sigmoid()
	l3 := r.L3(z)
	l2 := l3
	if r.L2 != nil {
		l2 = r.L2(z)
	}
	return Mean.apply(torch.Where(y.EqScalar(1), r.L1(z), Unified(r.K(p), r.V(p), l2, l3)))
}

func constant(x float64) func(*torch.Tensor) *torch.Tensor {
	return func(p *torch.Tensor) *torch.Tensor { return p.FullLike(x) }
}

// above is a where p > τ, b elsewhere.
func above(tau, a, b float64) func(*torch.Tensor) *torch.Tensor {
	return func(p *torch.Tensor) *torch.Tensor {
		return torch.Where(p.GtScalar(tau), p.FullLike(a), p.FullLike(b))
	}
}

func exactPositive(z *torch.Tensor) *torch.Tensor { return Positive(z, 0) }
func exactNegative(z *torch.Tensor) *torch.Tensor { return Negative(z, 0) }

// WeightedRow is AN (w = 1), WAN (w = 1/(C-1)) or DW.
func WeightedRow(w float64) Row {
	return Row{K: constant(0), V: constant(w), L1: exactPositive, L3: exactNegative}
}

// ENRow is expected negatives with the ranking replaced by a threshold τ₁ on p.
func ENRow(tau float64) Row {
	return Row{K: constant(0), V: above(tau, 0, 1), L1: exactPositive, L3: exactNegative}
}

// APLRow is EM+APL right after its labels were given, the ranking replaced by a threshold τ₁ on p.
func APLRow(tau, alpha, beta float64) Row {
	return Row{
		K: above(tau, 1, 0), V: above(tau, alpha, beta), L1: exactPositive,
		L2: func(z *torch.Tensor) *torch.Tensor { return Entropy(z, 0).Neg() },
		L3: func(z *torch.Tensor) *torch.Tensor { return SoftCrossEntropy(z, z.Detach().Sigmoid(), 0) },
	}
}

// HillRow is Hill with plain cross-entropy for positives.
func HillRow(lam float64) Row {
	return Row{K: constant(0), V: constant(1), L1: exactPositive, L3: func(z *torch.Tensor) *torch.Tensor { return hillNegative(z, lam) }}
}

// SPLCRow is SPLC with the margin in both positive branches and Hill negatives.
func SPLCRow(tau, margin, gamma, lam float64) Row {
	pos := func(z *torch.Tensor) *torch.Tensor {
		m := z.SubScalar(margin)
		return focalPositive(m, m, gamma, 0)
	}
	return Row{K: above(tau, 1, 0), V: constant(1), L1: pos, L2: pos, L3: func(z *torch.Tensor) *torch.Tensor { return hillNegative(z, lam) }}
}

// GRRow is GR at one point of its schedule.
func GRRow(q1, q2, q3 float64, at Point) Row {
	return Row{
		K: at.K, V: at.V,
		L1: func(z *torch.Tensor) *torch.Tensor { return gce(z, q1) },
		L2: func(z *torch.Tensor) *torch.Tensor { return gce(z, q2) },
		L3: func(z *torch.Tensor) *torch.Tensor { return gce(z.Neg(), q3) },
	}
}

// FrameworkRow is a column of the framework's table in words, with its functions.
type FrameworkRow struct {
	Name             string
	K, V, L1, L2, L3 string
	Functions        Row
}

// Framework is GR's Table 1 with typical numbers: τ₁ = 0.6, EM's weights for VOC, GR at the end of VOC's schedule.
//
// Source: Chen et al. 2024, Tables 1 and 4. Their signs of Hill's and EM's L₃ are taken as in eqs. (22) and (24), so
// that every loss is minimised.
func Framework() []FrameworkRow {
	const pos, neg = "-log p", "-log(1-p)"
	return []FrameworkRow{
		{"EN", "0", "0 where p > τ₁, else 1", pos, "unused", neg, ENRow(0.6)},
		{"EM+APL", "1 where p > τ₁, else 0", "α where p > τ₁, else β", pos, "-H(p)", "-p̂·log p - (1-p̂)·log(1-p)", APLRow(0.6, 0.2, 0.02)},
		{"Hill", "0", "1", pos, "unused", "(λ-p)·p²", HillRow(1.5)},
		{"focal margin + SPLC", "1 where p > τ₁, else 0", "1", "-(1-p_m)^γ·log p_m", "-(1-p_m)^γ·log p_m", "(λ-p)·p²", SPLCRow(0.6, 1, 2, 1.5)},
		{"GR", "1/(1+exp(-(w·p+b)))", "exp(-(p-μ)²/2σ²)", "(1-p^q1)/q1", "(1-p^q2)/q2", "(1-(1-p)^q3)/q3", GRRow(0.01, 0.01, 1, Point{W: 2, B: -2, Mu: 0.8, Sigma: 0.5})},
	}
}
