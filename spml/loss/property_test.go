package loss_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

var mid = loss.Point{W: 5, B: -5, Mu: 0.65, Sigma: 1.25}

// run is loss and gradient of the composed form at the batch's logits: identities hold to the last bit there.
func run(t *testing.T, id string, set loss.Values, o loss.Options, b loss.Batch) (float64, []float64) {
	t.Helper()
	o.Impl = loss.Composed
	l, err := loss.New(id, "", set, o)
	require.NoError(t, err)
	b.Logits = b.Logits.Detach().Clone().SetRequiresGrad(true)
	v, err := l.Value(b)
	require.NoError(t, err)
	v.Backward()
	return v.Item(), torch.ToSlice[float64](b.Logits.Grad())
}

func batch(t *testing.T, id string, seed uint64) loss.Batch {
	e, err := loss.Lookup(id)
	require.NoError(t, err)
	b, _, _ := losstest.Batch(e, losstest.Shape{B: 5, C: 9, DType: torch.Float64, Seed: seed})
	return b
}

func predicted(b loss.Batch) float64 {
	return b.Logits.Detach().Sigmoid().Sum().Item() / float64(b.Logits.Size(0))
}

// The algebra that remains of AEVLP's theorem (losses P1 to P6).
func TestGPRReducesToGR(t *testing.T) {
	for seed := range uint64(5) {
		b := batch(t, "gpr", seed)
		b.Point = &mid
		given := b.Pseudo
		b.Pseudo = given.ZerosLike()
		gr, grGrad := run(t, "gr", nil, loss.Options{}, b)

		v, g := run(t, "gpr", loss.Values{"eta": 0}, loss.Options{}, b)
		require.Equal(t, gr, v, "no pseudo-labels and η = 0")
		require.InDeltaSlice(t, grGrad, g, 1e-16)

		mhat := predicted(b)
		for _, eta := range []float64{0.01, 1, 30} {
			v, g = run(t, "gpr", loss.Values{"eta": eta, "m_pos": mhat}, loss.Options{}, b)
			require.InDelta(t, gr, v, 1e-15, "m = m̂")
			require.InDeltaSlice(t, grGrad, g, 1e-15)

			v, g = run(t, "gpr", loss.Values{"eta": eta, "m_pos": 1.5}, loss.Options{}, b)
			require.InDelta(t, gr+eta*(mhat-1.5)/9*(mhat-1.5)/9, v, 1e-12)
			p := torch.ToSlice[float64](b.Logits.Detach().Sigmoid())
			for i := range g {
				require.InDelta(t, grGrad[i]+2*eta*(mhat-1.5)/(81*5)*p[i]*(1-p[i]), g[i], 1e-12)
			}
		}

		b.Pseudo = given
		v, g = run(t, "gpr", nil, loss.Options{}, b)
		b.Pseudo = torch.Where(b.Observed.EqScalar(1), given.Neg().AddScalar(-1), given)
		v2, g2 := run(t, "gpr", nil, loss.Options{}, b)
		require.InDelta(t, v, v2, 1e-15, "pseudo-labels of observed positives are ignored")
		require.InDeltaSlice(t, g, g2, 1e-16) // the last bit depends on where a tensor lies in memory
	}
}

func TestGPREqualBounds(t *testing.T) {
	b := batch(t, "gpr", 1)
	b.Pseudo = b.Pseudo.OnesLike()
	set := loss.Values{"eta": 0, "lam_lo": 1, "lam_hi": 1, "rho": 1}
	b.Point = &mid
	v, g := run(t, "gpr", set, loss.Options{}, b)
	b.Point = &loss.Point{W: 0, B: 1, Mu: 0.1, Sigma: 0.2}
	v2, g2 := run(t, "gpr", set, loss.Options{}, b)
	require.Equal(t, v, v2, "independent of the schedule")
	require.Equal(t, g, g2)
	b.Full = b.Observed.OnesLike()
	v, g = run(t, "bce", nil, loss.Options{}, b)
	require.InDelta(t, v, v2, 1e-15, "every entry is a positive")
	require.InDeltaSlice(t, g, g2, 1e-15)
}

func TestGRReducesToAN(t *testing.T) {
	b := batch(t, "gr", 2)
	b.Point = &loss.Point{W: 0, B: -800, Mu: 0.5, Sigma: 1e9}
	v, g := run(t, "gr", loss.Values{"q2": 0, "q3": 0}, loss.Options{}, b)
	want, wantG := run(t, "an", nil, loss.Options{}, b)
	require.InDelta(t, want, v, 1e-14)
	require.InDeltaSlice(t, wantG, g, 1e-14)
}

// GR's framework (its Table 1) against the losses themselves.
func TestUnified(t *testing.T) {
	for seed := range uint64(4) {
		b := batch(t, "splc", seed)
		b.Point, b.Epoch = &mid, 2
		for _, c := range []struct {
			name string
			row  loss.Row
			id   string
			set  loss.Values
		}{
			{"AN", loss.WeightedRow(1), "an", nil},
			{"WAN", loss.WeightedRow(1. / 8), "wan", nil},
			{"DW", loss.WeightedRow(0.1), "dw", loss.Values{"neg_weight": 0.1}},
			{"Hill", loss.HillRow(1.5), "hill", loss.Values{"positive": 1}},
			{"SPLC", loss.SPLCRow(0.6, 1, 2, 1.5), "splc", loss.Values{"corrected_margin": 1, "neg": 1}},
			{"GR", loss.GRRow(0.01, 0.01, 1, mid), "gr", loss.Values{"q1": 0.01}},
			{"GR, code", loss.GRRow(0, 0.3, 0.7, mid), "gr", loss.Values{"q2": 0.3, "q3": 0.7}},
		} {
			t.Run(c.name, func(t *testing.T) {
				want, wantG := run(t, c.id, c.set, loss.Options{}, b)
				z := b.Logits.Detach().Clone().SetRequiresGrad(true)
				v := c.row.Loss(z, b.Observed)
				v.Backward()
				require.InDelta(t, want, v.Item(), 1e-14)
				require.InDeltaSlice(t, wantG, torch.ToSlice[float64](z.Grad()), 1e-14)
			})
		}
		// EN and EM+APL equal their rows right after a threshold has taken the ranking's place.
		p := b.Logits.Detach().Sigmoid()
		low := p.LeScalar(0.35)
		b.Negative = low
		want, _ := run(t, "en", nil, loss.Options{}, b)
		require.InDelta(t, want, loss.ENRow(0.35).Loss(b.Logits.Detach(), b.Observed).Item(), 1e-14)
		b.Labels = torch.Where(b.Observed.EqScalar(1), p.OnesLike(), torch.Where(low, p.Neg(), p.ZerosLike()))
		want, _ = run(t, "em-apl", loss.Values{"alpha": 0.1, "beta": 0.9}, loss.Options{}, b)
		require.InDelta(t, want, loss.APLRow(0.35, 0.1, 0.9).Loss(b.Logits.Detach(), b.Observed).Item(), 1e-14)
	}
}

func TestTrainableSchedule(t *testing.T) {
	b := batch(t, "gr", 3)
	b.Point = &mid
	want, _ := run(t, "gr", nil, loss.Options{}, b)
	b.Trainable = torch.FromSlice([]float64{mid.W, mid.B, mid.Mu, mid.Sigma}, 4).SetRequiresGrad(true)
	got, _ := run(t, "gr", nil, loss.Options{}, b)
	require.InDelta(t, want, got, 1e-14)
	g := torch.ToSlice[float64](b.Trainable.Grad())
	const h = 1e-6
	for i := range g {
		at := func(d float64) float64 {
			p := []float64{mid.W, mid.B, mid.Mu, mid.Sigma}
			p[i] += d
			now := b
			now.Trainable = nil
			now.Point = &loss.Point{W: p[0], B: p[1], Mu: p[2], Sigma: p[3]}
			v, _ := run(t, "gr", nil, loss.Options{}, now)
			return v
		}
		require.InDelta(t, (at(h)-at(-h))/(2*h), g[i], 1e-8, "parameter %d", i)
	}
}

func TestSchedule(t *testing.T) {
	s := loss.Points{
		Start: loss.Point{W: 0, B: -2, Mu: 0.5, Sigma: 2}, End: loss.Point{W: 10, B: -8, Mu: 0.8, Sigma: 0.5}, Epochs: 8,
	}
	require.Equal(t, loss.Point{W: 0, B: -2, Mu: 0.5375, Sigma: 1.8125}, s.At(1))
	require.Equal(t, loss.Point{W: 8.75, B: -7.25, Mu: 0.8, Sigma: 0.5}, s.At(8))
	s.Paper = true
	require.Equal(t, s.End, s.At(8))
	require.Equal(t, s.End, s.At(50), "nothing moves after T")
	s.Frozen = 3
	require.Equal(t, s.Start, s.At(2), "nothing moves while the backbone is frozen")
	s.Frozen = 8
	require.Error(t, s.Check())
}

func TestReductions(t *testing.T) {
	b := batch(t, "gr", 4)
	b.Point = &mid
	mean, g := run(t, "gr", nil, loss.Options{}, b)
	sum, gs := run(t, "gr", nil, loss.Options{Reduction: loss.Sum}, b)
	rows, gb := run(t, "gr", nil, loss.Options{Reduction: loss.BatchMean}, b)
	require.InDelta(t, 45*mean, sum, 1e-12)
	require.InDelta(t, 9*mean, rows, 1e-12)
	for i := range g {
		require.InDelta(t, 45*g[i], gs[i], 1e-12)
		require.InDelta(t, 9*g[i], gb[i], 1e-12)
	}
}
