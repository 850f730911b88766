package label

import (
	"fmt"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Pairs contrasts the label-wise embeddings of both views, with LAC's memory of earlier ones.
type Pairs struct {
	None
	Queue *Queue  // earlier pairs; nil: contrast within the batch only
	Delta float64 // probability from which a label counts as present
	Code  bool    // pairs as the released code takes them (ValidPairs)
}

// NewPairs makes a memory of size pairs of width values on a device, none for a negative size. delta is the probability
// from which a label counts as present.
func NewPairs(size, width int, delta float64, d torch.Device) (*Pairs, error) {
	q := &Pairs{Delta: delta}
	if size < 0 {
		return q, nil
	}
	var err error
	if q.Queue, err = NewQueue(size, width, torch.Float32, false); err == nil {
		q.Queue.Features, q.Queue.Labels = compute.To(q.Queue.Features, d), compute.To(q.Queue.Labels, d)
	}
	return q, err
}

// Fill gives a batch what it is contrasted with.
func (q *Pairs) Fill(s *Step) error {
	b := s.Batch
	if s.Weak == nil {
		return fmt.Errorf("label: the model gives no embeddings")
	}
	seen := b.Observed.ToDType(b.Logits.DType())
	hard := b.Logits.Detach().Sigmoid().Add(seen).GeScalar(q.Delta)
	if q.Queue != nil && !q.Code && !q.Queue.Code && b.Logits.Device().Type != torch.DeviceCPU && hard.Numel() > 0 {
		var err error
		b.Contrast, err = q.Queue.pushMarked(hard.LogicalOr(seen.EqScalar(1)), s.Weak, s.Strong)
		return err
	}
	x, ids, err := ValidPairs(hard, seen, s.Weak, s.Strong, q.Code)
	if err != nil {
		return err
	}
	if q.Queue == nil {
		b.Contrast = &loss.Contrast{Features: x, Labels: ids}
		return nil
	}
	b.Contrast, err = q.Queue.Push(x, ids)
	return err
}

// State is the memory.
func (q *Pairs) State() State {
	if q.Queue == nil {
		return State{}
	}
	return q.Queue.State()
}

// LoadState restores it.
func (q *Pairs) LoadState(s State) error {
	if q.Queue == nil {
		return nil
	}
	return q.Queue.LoadState(s)
}
