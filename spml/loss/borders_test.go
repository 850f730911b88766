package loss_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// TestFusedBorders compares fused and composed forms where parameters stand at their borders or anywhere between: thresholds of 0 and 1, powers
// of 0, no smoothing and full smoothing, nothing selected, one class, no row that counts, byte and float labels.
func TestFusedBorders(t *testing.T) {
	draws := 60
	if testing.Short() {
		draws = 12
	}
	for _, e := range loss.Entries() {
		if e.Fused == nil {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			r := rand.New(rand.NewPCG(17, uint64(len(e.ID))))
			made := 0
			for i := range draws {
				set := border(r, e)
				o := loss.Options{Reduction: []loss.Reduction{"", loss.Sum, loss.BatchMean}[r.IntN(3)], LogEps: []float64{0, 0, 1e-5}[r.IntN(3)]}
				o.Impl = loss.Composed
				composed, err := e.Make("voc", set, o)
				if err != nil {
					continue
				}
				o.Impl = loss.Fused
				fused, err := e.Make("voc", set, o)
				require.NoError(t, err)
				made++
				where := fmt.Sprintf("%v %+v", set, o)
				torch.Scope(func(*torch.Arena) { sameAtBorder(t, r, e, composed, fused, uint64(i), where) })
			}
			require.GreaterOrEqual(t, made, draws/4, "too few settings are valid")
		})
	}
}

// border draws parameters: half of the time their default.
func border(r *rand.Rand, e *loss.Entry) loss.Values {
	set := loss.Values{}
	for _, p := range e.Params {
		lo, hi := p.Min, p.Max
		if lo == 0 && hi == 0 {
			lo, hi = -2, 2
		}
		if math.IsInf(hi, 1) || hi > 6 {
			hi = lo + 6
		}
		if math.IsInf(lo, -1) || lo < -6 {
			lo = hi - 6
		}
		switch {
		case r.IntN(2) == 0:
		case p.Choices != nil:
			set[p.Name] = float64(r.IntN(len(p.Choices)))
		default:
			x := []float64{lo, hi, 0, 1, math.Round(lo + r.Float64()*(hi-lo)), lo + r.Float64()*(hi-lo)}[r.IntN(6)]
			set[p.Name] = x
		}
	}
	return set
}

func sameAtBorder(t *testing.T, r *rand.Rand, e *loss.Entry, composed, fused loss.Loss, seed uint64, where string) {
	shape := [][2]int{{1, 1}, {1, 7}, {5, 1}, {4, 19}, {3, 67}}[r.IntN(5)]
	s := losstest.Shape{B: shape[0], C: shape[1], DType: torch.Float64, Seed: seed, Scale: 6, Observed: []losstest.Observed{
		losstest.SinglePositive, losstest.AllUnknown, losstest.AllPositive, losstest.Mixed}[r.IntN(4)]}
	where = fmt.Sprintf("%s %v", where, s)
	b, _, _ := losstest.Batch(e, s)
	b.Logits = b.Logits.Detach()
	switch r.IntN(4) {
	case 0:
		b.Rows = torch.Zeros(torch.S(s.B), torch.Int8)
	case 1:
		b.Rows = torch.Ones(torch.S(s.B), torch.Int8)
		b.Rows.Select(0, 0).Fill_(0)
	}
	labels := torch.Int8
	if r.IntN(2) == 0 {
		labels = torch.Float64
	}
	for _, l := range []**torch.Tensor{&b.Observed, &b.Full, &b.Pseudo} {
		if *l != nil {
			*l = (*l).ToDType(labels)
		}
	}
	want, wantG, err := loss.ValueGrad(composed, b)
	if err != nil { // what the batch lacks or forbids, both say
		_, _, again := loss.ValueGrad(fused, b)
		require.Error(t, again, where)
		return
	}
	numbers := torch.ToSlice[float64](wantG.Contiguous())
	check := func(d torch.DType, abs, rel float64) {
		in := b
		in.Logits = b.Logits.ToDType(d)
		v, g, err := loss.ValueGrad(fused, in)
		require.NoError(t, err, where)
		if math.IsNaN(want.Item()) {
			require.True(t, math.IsNaN(v.Item()), where)
			return
		}
		require.InDelta(t, want.Item(), v.Item(), abs+rel*math.Abs(want.Item()), where)
		for i, x := range torch.ToSlice[float64](g.ToDType(torch.Float64).Contiguous()) {
			require.InDelta(t, numbers[i], x, abs+rel*math.Abs(numbers[i]), "%s: gradient at %d", where, i)
		}
	}
	check(torch.Float64, 1e-11, 1e-10)
}
