package label

import (
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Estimator is what changes a method's labels during training. Its tables are indexed by place: the position among the
// training rows in use.
type Estimator interface {
	Keeper
	// Start precedes an epoch's first batch. A run that goes on within an epoch calls it again.
	Start(epoch int) error
	// Fill puts what the loss needs into a batch whose logits are there.
	Fill(s *Step) error
	// After follows the optimiser's step, with the step that was filled.
	After(s *Step) error
	// End follows an epoch; scores are σ(z) of all places without augmentation, [n, C], and cost a pass over them.
	End(epoch int, scores func() (*torch.Tensor, error)) error
	// Groups are parameters that the optimiser trains beside the model's.
	Groups() []Group
}

// As finds an estimator of type T: e, or what it changes labels by (Unwrap).
func As[T any](e Estimator) (found T, ok bool) {
	for e != nil {
		if found, ok = e.(T); ok {
			return found, true
		}
		w, wraps := e.(interface{ Unwrap() Estimator })
		if !wraps {
			break
		}
		e = w.Unwrap()
	}
	return found, false
}

// Step is a batch, or a part of one, as an estimator sees it.
type Step struct {
	Batch  *loss.Batch
	Places []int         // of its images
	At     *torch.Tensor // the same as int64 on the device of the run
	Epoch  int           // from 1
	Flip   []bool        // which images are mirrored; nil = none
	LR     float64       // of the classifier in this step; 0 = not known
	// Weak and Strong are the label-wise embeddings [B, C, D] of both views; nil where the model gives none.
	Weak, Strong *torch.Tensor
	// Masked are the logits [B, C] of the masked view, without gradient; nil for methods without one (method.Method.Mask).
	Masked *torch.Tensor
}

// Crops are what the network sees of each image: all of it, mirrored or not.
func (s *Step) Crops() []Crop {
	c := make([]Crop, len(s.Places))
	for i := range c {
		c[i] = Whole
		if s.Flip != nil {
			c[i].Flip = s.Flip[i]
		}
	}
	return c
}

// Group are parameters with their learning rate as a multiple of the classifier's.
type Group struct {
	Params []*torch.Tensor
	Factor float64
}

// None is the estimator of methods without one; others embed it and write what they do.
type None struct{}

// Start does nothing.
func (None) Start(int) error { return nil }

// Fill does nothing.
func (None) Fill(*Step) error { return nil }

// After does nothing.
func (None) After(*Step) error { return nil }

// End does nothing.
func (None) End(int, func() (*torch.Tensor, error)) error { return nil }

// Groups are none.
func (None) Groups() []Group { return nil }

// State is empty.
func (None) State() State { return State{} }

// LoadState does nothing.
func (None) LoadState(State) error { return nil }
