package label

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Threshold is MIME's label matrix: labels with p > θ (strictly) become positive for good, from epoch T_w on.
//
// Source: Liu et al. 2023 (MIME), released code, whose pass skips the last images of a shuffled loader.
type Threshold struct {
	None
	Labels *torch.Tensor // [N, C] int8
	Theta  float64
	Warmup int
}

// NewThreshold starts from observed labels [N, C].
func NewThreshold(observed *torch.Tensor, theta float64, warmup int) (*Threshold, error) {
	if !(theta >= 0 && theta <= 1) {
		return nil, fmt.Errorf("label: θ is %v, want 0 to 1", theta)
	}
	l, err := NewLargeLoss(observed)
	if err != nil {
		return nil, err
	}
	return &Threshold{Labels: l.Labels, Theta: theta, Warmup: warmup}, nil
}

// Due says whether an update follows this epoch, counted from 1.
func (t *Threshold) Due(epoch int) bool { return epoch >= t.Warmup }

// Lookup is the rows' labels [len(rows), C].
func (t *Threshold) Lookup(rows []int) (*torch.Tensor, error) { return lookup(t.Labels, rows) }

// Update raises labels by the scores σ(z) [len(rows), C] of some rows.
func (t *Threshold) Update(rows []int, scores *torch.Tensor) error {
	var marked *torch.Tensor
	if err := torch.Try(func() { marked = scores.Detach().GtScalar(t.Theta) }); err != nil {
		return err
	}
	return raise(t.Labels, rows, marked)
}

// Fill gives a batch its labels.
func (t *Threshold) Fill(s *Step) error {
	s.Batch.Observed = t.Labels.IndexSelect(0, s.At)
	return nil
}

// End raises the labels of scores above θ.
func (t *Threshold) End(epoch int, scores func() (*torch.Tensor, error)) error {
	if !t.Due(epoch) {
		return nil
	}
	p, err := scores()
	if err != nil {
		return err
	}
	rows := make([]int, t.Labels.Size(0))
	for i := range rows {
		rows[i] = i
	}
	return t.Update(rows, p)
}

// State holds the labels.
func (t *Threshold) State() State {
	return State{Tensors: map[string]*torch.Tensor{"labels": t.Labels}}
}

// LoadState restores them.
func (t *Threshold) LoadState(s State) error { return s.restore("labels", t.Labels) }
