package label

import (
	"fmt"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Queue is LAC's memory of label-wise embeddings: the last K pairs of views with their class ids, 0 for an empty slot.
// The default is a ring; with Code the pointer restarts at 0 whenever a push reaches the end, exactly too, so that
// slots can stay empty, and a push of more than K pairs is refused.
//
// Source: Xie et al. 2022 (LAC) and its released code.
type Queue struct {
	Features *torch.Tensor // [K, 2, D]
	Labels   *torch.Tensor // [K] int64
	Code     bool

	next int
	live *torch.Tensor // next, on the device of Features, where pushMarked moves it; nil: next
}

// NewQueue makes an empty queue.
func NewQueue(k, d int, dtype torch.DType, code bool) (*Queue, error) {
	if k < 1 || d < 1 {
		return nil, fmt.Errorf("label: a queue of %d pairs with %d values", k, d)
	}
	q := &Queue{Code: code}
	err := build(func(s *torch.Arena) {
		q.Features, q.Labels = torch.Zeros(torch.S(k, 2, d), dtype), torch.Zeros(torch.S(k), torch.Int64)
		s.Keep(q.Features, q.Labels)
	})
	return q, err
}

// Push stores the pairs features [M, 2, D], labels [M] of a batch, detached, and gives what the contrast is taken of:
// all filled slots, those of the batch with their gradients.
func (q *Queue) Push(features, labels *torch.Tensor) (*loss.Contrast, error) {
	k, d := q.Features.Size(0), q.Features.Size(2)
	if features == nil || labels == nil || features.Dim() != 3 || features.Size(1) != 2 || features.Size(2) != d || labels.Dim() != 1 || labels.Size(0) != features.Size(0) {
		return nil, fmt.Errorf("label: the queue holds [M, 2, %d] features with [M] labels", d)
	}
	m := labels.Size(0)
	if m > k && q.Code {
		return nil, fmt.Errorf("label: a push of %d pairs into a queue of %d: the released code cannot do that; take a larger queue or the ring", m, k)
	}
	var c *loss.Contrast
	err := torch.Try(func() {
		q.next = q.pointer()
		skip := max(m-k, 0) // only the last K can stay
		m -= skip
		live, ids := features.Slice(0, skip, skip+m, 1), labels.Slice(0, skip, skip+m, 1).ToDType(torch.Int64)
		slots := make([]int64, m)
		if q.Code && q.next+m >= k {
			q.next = 0
		}
		for i := range slots {
			slots[i] = int64((q.next + i) % k)
		}
		q.next = (q.next + m) % k
		at := torch.Upload(q.Features.Device(), slots)
		torch.NoGrad(func() {
			q.Features.IndexCopy_(0, at, live.Detach().ToDType(q.Features.DType()))
			q.Labels.IndexCopy_(0, at, ids)
		})
		current := torch.Zeros(torch.S(k), torch.Bool, at.Device()).IndexFill(0, at, true)
		filled := q.Labels.NeScalar(0).Nonzero().Flatten(0, -1)
		all := q.Features.IndexCopy(0, at, live.ToDType(q.Features.DType()))
		c = &loss.Contrast{Features: all.IndexSelect(0, filled), Labels: q.Labels.IndexSelect(0, filled), Current: current.IndexSelect(0, filled)}
		q.point(q.next)
	})
	return c, err
}

// pushMarked is Push of the embeddings of two views weak, strong [B, C, D] where marked [B, C] holds, without a size
// that depends on values, for which a device would be waited for. The contrast has all K slots, the empty ones with a
// label below 0. The slots are those of Push.
func (q *Queue) pushMarked(marked, weak, strong *torch.Tensor) (c *loss.Contrast, err error) {
	k, n, classes, d := q.Features.Size(0), marked.Numel(), marked.Size(1), marked.Device()
	if q.live == nil {
		if err := build(func(s *torch.Arena) { q.live = s.Keep(torch.Scalar(int64(q.next)).Send(d)) }); err != nil {
			return nil, err
		}
	}
	err = torch.Try(func() {
		upTo := marked.Flatten(0, -1).ToDType(torch.Int64).Cumsum(0) // marked ones up to here
		all := upTo.Select(0, n-1)
		stay := all.ClampMax(k) // only the last K can stay
		// Slot s takes the pair with the number (s - next) mod K of those that stay, if there are so many.
		number := torch.Arange(int64(0), int64(k), int64(1), torch.Int64, d).Sub(q.live).RemainderScalar(k)
		fresh := number.Lt(stay)
		at := torch.Searchsorted(upTo, number.Add(all.Sub(stay)).AddScalar(1)).ClampMax(n - 1)
		pairs := torch.Stack([]*torch.Tensor{weak.Flatten(0, 1).IndexSelect(0, at),
			strong.Flatten(0, 1).IndexSelect(0, at)}, 1)
		features := torch.Where(fresh.Reshape(k, 1, 1), pairs.ToDType(q.Features.DType()), q.Features)
		labels := torch.Where(fresh, at.RemainderScalar(classes).AddScalar(1), q.Labels)
		torch.NoGrad(func() {
			q.Features.Copy_(features.Detach())
			q.Labels.Copy_(labels)
			q.live.Copy_(q.live.Add(stay).RemainderScalar(k))
		})
		c = &loss.Contrast{Features: features, Labels: labels.MaskedFill(labels.EqScalar(0), -1), Current: fresh}
	})
	return c, err
}

// pointer is the slot that the next pair goes to.
func (q *Queue) pointer() int {
	if q.live == nil {
		return q.next
	}
	return q.live.ItemInt()
}

func (q *Queue) point(next int) {
	q.next = next
	if q.live != nil {
		torch.NoGrad(func() { q.live.Fill_(int64(next)) })
	}
}

// ValidPairs gathers the embeddings of two views weak, strong [B, C, D] where hard labels or observed ones [B, C] are
// positive: [M, 2, D] and class ids [M] from 1. With code, a single pair is taken twice: a squeeze in the released code
// does that.
func ValidPairs(hard, observed, weak, strong *torch.Tensor, code bool) (features, labels *torch.Tensor, err error) {
	if err := matrix("hard labels", hard); err != nil {
		return nil, nil, err
	}
	if err := same("observed labels", observed, hard); err != nil {
		return nil, nil, err
	}
	if weak == nil || weak.Dim() != 3 || weak.Size(0) != hard.Size(0) || weak.Size(1) != hard.Size(1) {
		return nil, nil, fmt.Errorf("label: embeddings want shape [%d, %d, D]", hard.Size(0), hard.Size(1))
	}
	if err := same("embeddings of the strong view", strong, weak); err != nil {
		return nil, nil, err
	}
	err = torch.Try(func() {
		at := hard.EqScalar(1).LogicalOr(observed.EqScalar(1)).Flatten(0, -1).Nonzero().Flatten(0, -1)
		if code && at.Size(0) == 1 {
			at = at.Repeat(2)
		}
		features = torch.Stack([]*torch.Tensor{weak.Flatten(0, 1).IndexSelect(0, at), strong.Flatten(0, 1).IndexSelect(0, at)}, 1)
		labels = at.RemainderScalar(hard.Size(1)).AddScalar(1)
	})
	return features, labels, err
}

// State holds the slots and the pointer.
func (q *Queue) State() State {
	return State{map[string]*torch.Tensor{"features": q.Features, "labels": q.Labels},
		map[string]float64{"next": float64(q.pointer())}}
}

// LoadState restores them.
func (q *Queue) LoadState(s State) error {
	next, err := s.number("next")
	if err != nil {
		return err
	}
	if k := q.Features.Size(0); next != float64(int(next)) || next < 0 || int(next) >= k {
		return fmt.Errorf("label: the queue's pointer is %v of %d", next, k)
	}
	if err := s.fits("labels", q.Labels); err != nil {
		return err
	}
	if err := s.restore("features", q.Features); err != nil {
		return err
	}
	if err := torch.Try(func() { q.point(int(next)) }); err != nil {
		return err
	}
	return s.restore("labels", q.Labels)
}
