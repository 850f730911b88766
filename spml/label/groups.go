package label

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/torch"
)

// GroupConfig are the numbers of L48's group regulariser.
type GroupConfig struct {
	Rate  float64 // η, share of the new scores
	Start float64 // of labels that no photo of the group shows; below 0: drawn between 0.4 and 0.6
	Last  bool    // of several photos of a group in a batch the last one counts, else their mean
}

// Groups are running scores Q [G, C] of groups of photos that share labels: Q_g ← (1-η)·Q_g + η·p of the group's
// photos in a batch. They start at 1 for labels that a photo of the group shows.
//
// Source: the L48 benchmark, 2025. Its code looks at the first photo of a group only, and only while group numbers have
// no gap; here all photos of all groups count.
type Groups struct {
	None
	c    GroupConfig
	q    *torch.Tensor // [G+1, C]; the last row, -1, is that of photos without a group
	of   *torch.Tensor // [n] int64, the row of each place
	none int
	more Estimator // of the labels
}

// NewGroups starts from the observed labels [n, C] and the group of each place, below 0 for none. more, if not nil,
// changes the labels beside it. g draws; nil is the default generator.
func NewGroups(observed *torch.Tensor, group []int, dtype torch.DType, c GroupConfig, more Estimator,
	g *torch.Generator) (*Groups, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	if len(group) != observed.Size(0) || !(c.Rate >= 0 && c.Rate <= 1) || !(c.Start <= 1) {
		return nil, fmt.Errorf("label: %d groups of %d rows, η %v, start %v", len(group), observed.Size(0), c.Rate, c.Start)
	}
	if more == nil {
		more = None{}
	}
	r := &Groups{c: c, more: more}
	for _, i := range group {
		r.none = max(r.none, i+1)
	}
	rows := make([]int64, len(group))
	for i, at := range group {
		if rows[i] = int64(at); at < 0 {
			rows[i] = int64(r.none)
		}
	}
	err := build(func(s *torch.Arena) {
		d := observed.Device()
		r.of = s.Keep(torch.Upload(d, rows))
		shape := torch.S(r.none+1, observed.Size(1))
		q := torch.Full(shape, c.Start, dtype)
		if c.Start < 0 {
			q = torch.Empty(shape, dtype).Uniform_(0.4, 0.6, g)
		}
		shown := torch.Zeros(shape, torch.Float32, d).IndexAdd(0, r.of, observed.EqScalar(1).ToDType(torch.Float32))
		q = q.ToDevice(d).MaskedFill(shown.GtScalar(0), 1)
		q.Select(0, r.none).Fill_(-1)
		r.q = s.Keep(q)
	})
	return r, err
}

// Table is Q [G, C]; it changes with every update.
func (r *Groups) Table() *torch.Tensor { return r.q.Narrow(0, 0, r.none) }

// Update takes in the scores σ(z) [B, C] of photos of the given rows of Q [B].
func (r *Groups) Update(at, scores *torch.Tensor) error {
	return torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) {
				p := scores.Detach().ToDType(r.q.DType())
				same := at.Unsqueeze(1).Eq(at.Unsqueeze(0)).ToDType(p.DType()) // [B, B]
				if r.c.Last {
					n := at.Size(0)
					order := torch.Arange(int64(1), int64(n+1), int64(1), torch.Int64, p.Device()).ToDType(p.DType())
					p = p.IndexSelect(0, same.Mul(order).Argmax(1, false))
				} else {
					p = same.Div(same.SumDim([]int{1}, true)).Matmul(p)
				}
				now := r.q.IndexSelect(0, at)
				next := now.MulScalar(1 - r.c.Rate).Add(p.MulScalar(r.c.Rate))
				r.q.IndexCopy_(0, at, torch.Where(now.LtScalar(0), now, next)) // rows of one group are equal
			})
		})
	})
}

// Unwrap is what changes the labels beside it.
func (r *Groups) Unwrap() Estimator { return r.more }

// Groups are the parameters of what changes the labels beside it.
func (r *Groups) Groups() []Group { return r.more.Groups() }

// Start begins an epoch.
func (r *Groups) Start(epoch int) error { return r.more.Start(epoch) }

// Fill gives a batch the scores of its photos' groups as they are now.
func (r *Groups) Fill(s *Step) error {
	s.Batch.Group = r.q.IndexSelect(0, r.of.IndexSelect(0, s.At))
	return r.more.Fill(s)
}

// After takes the batch's scores in.
func (r *Groups) After(s *Step) error {
	if err := r.more.After(s); err != nil {
		return err
	}
	z := s.Batch.Logits
	if z == nil {
		z = s.Batch.Maps.MeanDim([]int{2, 3}, false)
	}
	return r.Update(r.of.IndexSelect(0, s.At), z.Detach().Sigmoid())
}

// End ends an epoch.
func (r *Groups) End(epoch int, scores func() (*torch.Tensor, error)) error {
	return r.more.End(epoch, scores)
}

// State holds the table, and what changes the labels.
func (r *Groups) State() State {
	s := State{Tensors: map[string]*torch.Tensor{"q": r.q}, Numbers: map[string]float64{}}
	more := r.more.State()
	for k, t := range more.Tensors {
		s.Tensors["more."+k] = t
	}
	for k, v := range more.Numbers {
		s.Numbers["more."+k] = v
	}
	return s
}

// SavedBeside are the numbers of what changes the labels beside Groups, out of those of Groups' state.
func SavedBeside(numbers map[string]float64) map[string]float64 {
	own := map[string]float64{}
	for k, v := range numbers {
		if name, beside := strings.CutPrefix(k, "more."); beside {
			own[name] = v
		}
	}
	return own
}

// LoadState restores them.
func (r *Groups) LoadState(s State) error {
	if err := s.fits("q", r.q); err != nil {
		return err
	}
	own := r.more.State()
	more := State{Tensors: map[string]*torch.Tensor{}, Numbers: map[string]float64{}}
	for k := range own.Tensors {
		more.Tensors[k] = s.Tensors["more."+k]
	}
	for k := range own.Numbers {
		more.Numbers[k] = s.Numbers["more."+k]
	}
	if err := r.more.LoadState(more); err != nil {
		return err
	}
	return s.restore("q", r.q)
}
