package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// ScoreAverage is a running average of scores over epochs, H [N, C]: H[i] ← μ·H[i] + (1-μ)·p_i whenever image i is
// visited. It starts at 1 for observed positives and 0 elsewhere.
//
// Source: Verelst et al. 2023 as described by others.
type ScoreAverage struct {
	H  *torch.Tensor // [N, C]
	Mu float64

	visits float64 // calls of Update
}

// NewScoreAverage starts from observed labels [N, C].
func NewScoreAverage(observed *torch.Tensor, dtype torch.DType, mu float64) (*ScoreAverage, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	if !(mu >= 0 && mu <= 1) {
		return nil, fmt.Errorf("label: μ is %v, want 0 to 1", mu)
	}
	a := &ScoreAverage{Mu: mu}
	err := build(func(s *torch.Arena) { a.H = s.Keep(observed.EqScalar(1).ToDType(dtype)) })
	return a, err
}

// Lookup is the rows' averages [len(rows), C] as they are now: take them before Update.
func (a *ScoreAverage) Lookup(rows []int) (*torch.Tensor, error) { return lookup(a.H, rows) }

// Update takes in the scores σ(z) [len(rows), C] of a batch. A row must not appear twice.
func (a *ScoreAverage) Update(rows []int, scores *torch.Tensor) error {
	ids, err := index(rows, a.H)
	if err != nil {
		return err
	}
	var bad error
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) {
				now := a.H.IndexSelect(0, ids)
				if bad = same("scores", scores, now); bad == nil {
					a.H.IndexCopy_(0, ids, now.MulScalar(a.Mu).Add(scores.ToDType(a.H.DType()).MulScalar(1-a.Mu)))
				}
			})
		})
	})
	if bad != nil {
		return bad
	}
	a.visits++
	return err
}

// Started says whether any score was taken in; before, every unknown label counts as negative.
func (a *ScoreAverage) Started() bool { return a.visits > 0 }

// State holds the table and the number of updates.
func (a *ScoreAverage) State() State {
	return State{map[string]*torch.Tensor{"h": a.H}, map[string]float64{"visits": a.visits}}
}

// LoadState restores them.
func (a *ScoreAverage) LoadState(s State) error {
	v, err := s.number("visits")
	if err != nil {
		return err
	}
	if err := s.restore("h", a.H); err != nil {
		return err
	}
	a.visits = v
	return nil
}

// ExpectedPositiveCounts estimates N_c: k times the observed positives of each class, rounded, between their number and
// N.
func ExpectedPositiveCounts(observed *torch.Tensor, k float64) ([]int, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	var counts []int
	err := torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			n := observed.Size(0)
			for _, c := range torch.ToSlice[int64](observed.EqScalar(1).SumDim([]int{0}, false)) {
				counts = append(counts, min(max(int(math.RoundToEven(k*float64(c))), int(c)), n))
			}
		})
	})
	return counts, err
}

// ExpectedNegatives marks, for each class, the N-N_c images with the lowest average among those without an observed
// positive (all of them where they are fewer): int8 [N, C]. Ties go to the lower row. Images known not to have the
// class are among the N-N_c, whatever their average, so that they take no place of a possible positive.
func ExpectedNegatives(average, observed *torch.Tensor, positives []int) (mask *torch.Tensor, err error) {
	if err := matrix("averages", average); err != nil {
		return nil, err
	}
	if err := same("observed labels", observed, average); err != nil {
		return nil, err
	}
	n, c := average.Size(0), average.Size(1)
	if len(positives) != c {
		return nil, fmt.Errorf("label: %d counts of positives for %d classes", len(positives), c)
	}
	take := make([]int64, c)
	for i, p := range positives {
		take[i] = int64(n - min(max(p, 0), n))
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				free := observed.EqScalar(1).LogicalNot()
				ranked := average.Detach().MaskedFill(free.LogicalNot(), math.Inf(1)).
					MaskedFill(observed.EqScalar(-1), math.Inf(-1))
				_, order := ranked.SortStable(true, 0, false)
				places := torch.Arange(int64(0), int64(n), int64(1), torch.Int64, order.Device()).Unsqueeze(1).ExpandAs(order)
				rank := order.ZerosLike().Scatter(0, order, places)
				mask = s.Keep(rank.Lt(torch.Upload(rank.Device(), take)).LogicalAnd(free).ToDType(torch.Int8))
			})
		})
	})
	return mask, err
}
