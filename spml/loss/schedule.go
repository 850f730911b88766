package loss

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Point holds GR's parameters at one moment: k̂(p) = σ(w·p + b), v(p) = exp(-(p-μ)²/(2σ²)).
type Point struct{ W, B, Mu, Sigma float64 }

// Points moves a Point linearly from its first to its last value.
type Points struct {
	Start, End Point
	Epochs     int  // T
	Frozen     int  // n₀: first epochs with a frozen backbone, during which nothing moves
	Paper      bool // t/T for all four, as printed
}

// At is the point of an epoch counted from 1. The released code moves w and b by (e-n₀-1)/(T-n₀), which never reaches
// their last value, and μ and σ by (e-n₀)/(T-n₀), which never takes their first; the paper moves all by t/T, t = 0 … T.
// After epoch T nothing moves.
func (s Points) At(epoch int) Point {
	t := float64(s.Epochs - s.Frozen)
	late := min(float64(max(epoch-s.Frozen, 0))/t, 1)
	early := min(float64(max(epoch-s.Frozen-1, 0))/t, 1)
	if s.Paper {
		early = late
	}
	line := func(a, b, f float64) float64 { return a + (b-a)*f }
	return Point{
		W: line(s.Start.W, s.End.W, early), B: line(s.Start.B, s.End.B, early),
		Mu: line(s.Start.Mu, s.End.Mu, late), Sigma: line(s.Start.Sigma, s.End.Sigma, late),
	}
}

// scheduleSources are where the numbers of a schedule come from.
type scheduleSources struct{ start, wb, musigma, epochs, frozen string }

var (
	grSchedule = scheduleSources{
		start: "code, yan4xi1/GRLoss @ 5e13f7f, config.py: beta, alpha", wb: "paper, gr Table 6: w(T), b(T)", musigma: "paper, gr Table 6: mu(T), sigma(T)",
		epochs: "paper, gr Table 6: epochs T", frozen: "code, yan4xi1/GRLoss @ 5e13f7f, config.py: linear_init",
	}
	gprSchedule = scheduleSources{
		start: "code, Fsoft-AIC/AEVLP @ 0bad82a, configs/*.json: beta, alpha", wb: "paper, aevlp Table 3: w(T), b(T)", musigma: "paper, aevlp Table 3: mu(T), sigma(T)",
		epochs: "code, Fsoft-AIC/AEVLP @ 0bad82a, configs/*.json: num_epochs", frozen: "code, Fsoft-AIC/AEVLP @ 0bad82a, configs/*.json: linear_init",
	}
)

// scheduleParams are the parameters of Points as papers and code have them.
func scheduleParams(from scheduleSources) []Param {
	return []Param{
		{Name: "w0", Doc: "w at the start", Source: from.start},
		{Name: "wT", Doc: "w at the end", Source: from.wb, Default: 2, ByData: perData(2, 10, 10, 10)},
		{Name: "b0", Doc: "b at the start", Source: from.start, Default: -2},
		{Name: "bT", Doc: "b at the end", Source: from.wb, Default: -2, ByData: perData(-2, -8, -8, -8)},
		{Name: "mu0", Doc: "μ at the start", Source: from.start, Default: 0.5},
		{Name: "muT", Doc: "μ at the end", Source: from.musigma, Default: 0.8},
		{Name: "sigma0", Doc: "σ at the start", Source: from.start, Default: 2, Min: 1e-6, Max: inf},
		{Name: "sigmaT", Doc: "σ at the end", Source: from.musigma, Default: 0.5, Min: 1e-6, Max: inf},
		{Name: "epochs", Doc: "T", Source: from.epochs, Default: 8, ByData: perData(8, 8, 10, 10), Min: 1, Max: inf},
		{Name: "frozen", Doc: "n₀, first epochs with a frozen backbone", Source: from.frozen, Max: inf},
		{Name: "schedule", Doc: "epoch offsets; learned: none, w, b, μ, σ are trained with the network from their start", Source: "ours, the offsets of the released code unless the paper's form is asked for", Choices: []string{"code", "paper", "learned"}},
	}
}

// PointsLearned is the value of the parameter "schedule" with which the trainer makes w, b, μ and σ parameters of the
// optimiser (Batch.Trainable).
const PointsLearned = 2

// PointsOf makes the points of GR's or GPR's parameters.
func PointsOf(v Values) (Points, error) {
	s := Points{
		Start:  Point{v["w0"], v["b0"], v["mu0"], v["sigma0"]},
		End:    Point{v["wT"], v["bT"], v["muT"], v["sigmaT"]},
		Epochs: v.whole("epochs"), Frozen: v.whole("frozen"), Paper: v["schedule"] == 1,
	}
	if v["schedule"] == PointsLearned {
		s.End = s.Start
	}
	return s, s.Check()
}

// Check refuses points without epochs.
func (s Points) Check() error {
	if s.Epochs <= s.Frozen {
		return fmt.Errorf("%d epochs of which %d are frozen leave none for the schedule", s.Epochs, s.Frozen)
	}
	return nil
}

// curves are k̂ and v of sg(p). Their parameters are numbers, or Batch.Trainable, which receives gradients.
func (b *Batch) curves(s Points) (k, v *torch.Tensor) {
	z := b.constants()
	p := z.Sigmoid()
	if t := b.Trainable; t != nil {
		t = like(t, z)
		w, b, mu, sigma := t.Select(0, 0), t.Select(0, 1), t.Select(0, 2), t.Select(0, 3)
		return p.Mul(w).Add(b).Sigmoid(), p.Sub(mu).Div(sigma).Square().MulScalar(-0.5).Exp()
	}
	at := b.point(s)
	return at.K(p), at.V(p)
}

// point is Batch.Point, or the schedule's at Batch.Epoch.
func (b *Batch) point(s Points) Point {
	if b.Point != nil {
		return *b.Point
	}
	return s.At(b.Epoch)
}

// K is k̂(p).
func (at Point) K(p *torch.Tensor) *torch.Tensor { return p.MulScalar(at.W).AddScalar(at.B).Sigmoid() }

// V is v(p).
func (at Point) V(p *torch.Tensor) *torch.Tensor {
	return p.SubScalar(at.Mu).Square().MulScalar(-1 / (2 * at.Sigma * at.Sigma)).Exp()
}
