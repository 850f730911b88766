package label

import "github.com/gospml/gospml/torch"

// LargeLoss keeps the labels of LL-Cp: what the loss reports as permanent_flips becomes an observed positive for all
// later epochs.
//
// Source: Kim et al. 2022.
type LargeLoss struct {
	None
	Labels *torch.Tensor // [N, C] int8

	flips *torch.Tensor // of the batch in work
}

// NewLargeLoss starts from observed labels [N, C].
func NewLargeLoss(observed *torch.Tensor) (*LargeLoss, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	l := &LargeLoss{}
	err := build(func(s *torch.Arena) { l.Labels = s.Keep(observed.ToDType(torch.Int8).Clone()) })
	return l, err
}

// Lookup is the rows' labels [len(rows), C].
func (l *LargeLoss) Lookup(rows []int) (*torch.Tensor, error) { return lookup(l.Labels, rows) }

// Flip makes the marked labels of a batch positive; flips is [len(rows), C].
func (l *LargeLoss) Flip(rows []int, flips *torch.Tensor) error {
	return raise(l.Labels, rows, flips)
}

func lookup(table *torch.Tensor, rows []int) (t *torch.Tensor, err error) {
	ids, err := index(rows, table)
	if err != nil {
		return nil, err
	}
	err = torch.Try(func() { t = table.IndexSelect(0, ids) })
	return t, err
}

// raise sets table[rows] to 1 where marked, but for labels that are known to be negative.
func raise(table *torch.Tensor, rows []int, marked *torch.Tensor) error {
	ids, err := index(rows, table)
	if err != nil {
		return err
	}
	var bad error
	err = torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			now := table.IndexSelect(0, ids)
			if bad = same("marks", marked, now); bad == nil {
				table.IndexCopy_(0, ids, now.MaskedFill(marked.NeScalar(0).LogicalAnd(now.NeScalar(-1)), 1))
			}
		})
	})
	if bad != nil {
		return bad
	}
	return err
}

// Fill gives a batch its labels, and listens for those that the loss marks.
func (l *LargeLoss) Fill(s *Step) error {
	s.Batch.Observed = l.Labels.IndexSelect(0, s.At)
	l.flips = nil
	s.Batch.Report = func(part string, v *torch.Tensor) {
		if part == "permanent_flips" {
			l.flips = v
		}
	}
	return nil
}

// After makes positives of what was marked.
func (l *LargeLoss) After(s *Step) error {
	if l.flips == nil {
		return nil
	}
	return l.Flip(s.Places, l.flips)
}

// State holds the labels.
func (l *LargeLoss) State() State {
	return State{Tensors: map[string]*torch.Tensor{"labels": l.Labels}}
}

// LoadState restores them.
func (l *LargeLoss) LoadState(s State) error { return s.restore("labels", l.Labels) }
