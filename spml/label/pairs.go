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
	queue *Queue // nil: contrast within the batch only
	delta float64
}

// NewPairs makes a memory of size pairs of width values on a device, none for a negative size. delta is the probability from which a label counts as present.
func NewPairs(size, width int, delta float64, d torch.Device) (*Pairs, error) {
	q := &Pairs{delta: delta}
	if size < 0 {
		return q, nil
	}
	var err error
	if q.queue, err = NewQueue(size, width, torch.Float32, false); err == nil {
		q.queue.Features, q.queue.Labels = compute.To(q.queue.Features, d), compute.To(q.queue.Labels, d)
	}
	return q, err
}

// Fill gives a batch what it is contrasted with.
func (q *Pairs) Fill(s *Step) error {
	b := s.Batch
	if s.Weak == nil {
		return fmt.Errorf("label: the model gives no embeddings")
	}
	seen := b.Observed.ToDType(torch.Float32)
	hard := b.Logits.Detach().Sigmoid().Add(seen).GeScalar(q.delta)
	x, ids, err := ValidPairs(hard, seen, s.Weak, s.Strong, false)
	if err != nil {
		return err
	}
	if q.queue == nil {
		b.Contrast = &loss.Contrast{Features: x, Labels: ids}
		return nil
	}
	b.Contrast, err = q.queue.Push(x, ids)
	return err
}

// State is the memory.
func (q *Pairs) State() State {
	if q.queue == nil {
		return State{}
	}
	return q.queue.State()
}

// LoadState restores it.
func (q *Pairs) LoadState(s State) error {
	if q.queue == nil {
		return nil
	}
	return q.queue.LoadState(s)
}
