package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// APLConfig are the numbers of asymmetric pseudo-labelling.
type APLConfig struct {
	Theta  float64 // θ, share of a class's unknown labels that become negatives over all rounds
	Epochs int     // T
	Warmup int     // T_w: the first round follows this epoch
	// BatchSize of the scoring pass, for the released code's habit of labelling nothing where the whole set fits in one
	// batch; 0 = labels are always given.
	BatchSize int
}

// APL is asymmetric pseudo-labelling: after each epoch from the warm-up on, the floor(θ·U_c/(T-T_w)) lowest-scored
// labels of every class that are still unknown become soft negatives: the entry is set to minus its score, for good.
// U_c counts the unknown labels of the class at the start. The rounds after epochs T_w … T-1 matter for training; one
// more, after the last epoch, labels up to as many again. Ties go to the lower row. A score of exactly 0 leaves its
// label unknown.
//
// Source: Zhou et al. 2022, section 3.3. The released pass scores a shuffled, mirrored training loader; scores here
// come from the caller, who should use the images as they are.
type APL struct {
	None
	Labels *torch.Tensor // [N, C]: 1, 0, -s, or loss.KnownNegative

	config APLConfig
	quota  []int // per class and round
}

// NewAPL starts from observed labels [N, C] in {1, 0, -1}. The dtype, float32 or float64, is that of the soft labels.
func NewAPL(observed *torch.Tensor, dtype torch.DType, c APLConfig) (*APL, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	if !(c.Theta > 0 && c.Theta <= 1) || c.Warmup < 0 || c.Epochs <= c.Warmup {
		return nil, fmt.Errorf("label: asymmetric pseudo-labelling wants θ in (0, 1] and more epochs than warm-up, got θ %v, %d epochs, warm-up %d", c.Theta, c.Epochs, c.Warmup)
	}
	a := &APL{config: c}
	err := build(func(s *torch.Arena) {
		y := observed.ToDType(dtype)
		a.Labels = s.Keep(y.MaskedFill(y.EqScalar(-1), loss.KnownNegative))
		for _, u := range torch.ToSlice[int64](a.Labels.EqScalar(0).SumDim([]int{0}, false)) {
			a.quota = append(a.quota, int(c.Theta*float64(u)/float64(c.Epochs-c.Warmup)))
		}
	})
	return a, err
}

// Quota is the number of labels that a round gives in each class.
func (a *APL) Quota() []int { return append([]int(nil), a.quota...) }

// Due says whether a round follows this epoch, counted from 1.
func (a *APL) Due(epoch int) bool { return epoch >= a.config.Warmup }

// Update is one round: scores [N, C] are σ(z) of the whole training set in the table's order. It returns how many
// labels became negative.
func (a *APL) Update(scores *torch.Tensor) (assigned int, err error) {
	if err := same("scores", scores, a.Labels); err != nil {
		return 0, err
	}
	if n := a.Labels.Size(0); n == 0 || a.config.BatchSize > 0 && n <= a.config.BatchSize {
		return 0, nil
	}
	var bad error
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) {
				if bad = finite("scores", scores); bad != nil {
					return
				}
				s := scores.ToDType(a.Labels.DType())
				unknown := a.Labels.EqScalar(0)
				_, order := s.MaskedFill(unknown.LogicalNot(), math.Inf(1)).SortStable(true, 0, false)
				// rank[i, c] is the place of image i among the scores of class c.
				n := int64(s.Size(0))
				places := torch.Arange(int64(0), n, int64(1), torch.Int64, order.Device()).Unsqueeze(1).ExpandAs(order)
				rank := order.ZerosLike().Scatter(0, order, places)
				q := make([]int64, len(a.quota))
				for c, v := range a.quota {
					q[c] = int64(v)
				}
				picked := rank.Lt(torch.Upload(rank.Device(), q)).LogicalAnd(unknown)
				a.Labels.Copy_(torch.Where(picked, s.Neg(), a.Labels))
				assigned = picked.Sum().ItemInt()
			})
		})
	})
	if bad != nil {
		err = bad
	}
	return assigned, err
}

// Fill gives a batch its labels.
func (a *APL) Fill(s *Step) error {
	s.Batch.Labels = a.Labels.IndexSelect(0, s.At)
	return nil
}

// End labels; the round after the last epoch would serve no training.
func (a *APL) End(epoch int, scores func() (*torch.Tensor, error)) error {
	if !a.Due(epoch) || epoch >= a.config.Epochs {
		return nil
	}
	p, err := scores()
	if err == nil {
		_, err = a.Update(p)
	}
	return err
}

// State holds the labels, and U_c through the quotas.
func (a *APL) State() State {
	q := make([]int64, len(a.quota))
	for i, v := range a.quota {
		q[i] = int64(v)
	}
	return State{Tensors: map[string]*torch.Tensor{"labels": a.Labels, "quota": torch.FromSlice(q, len(q))}}
}

// LoadState restores labels and quotas.
func (a *APL) LoadState(s State) error {
	q := s.Tensors["quota"]
	if q == nil || q.DType() != torch.Int64 || q.Dim() != 1 || q.Size(0) != len(a.quota) {
		return fmt.Errorf("label: the state has no quotas for %d classes", len(a.quota))
	}
	if err := s.restore("labels", a.Labels); err != nil {
		return err
	}
	for i, v := range torch.ToSlice[int64](q) {
		a.quota[i] = int(v)
	}
	return nil
}
