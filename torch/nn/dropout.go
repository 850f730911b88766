package nn

import "github.com/gospml/gospml/torch"

// Dropout zeroes each element with probability P in training mode and scales the others by 1/(1-P); in evaluation mode
// it returns its input (torch.nn.Dropout). It draws from the default generator, the same numbers as Python's.
type Dropout struct {
	P        float64
	Training bool // set by SetTraining
}

// NewDropout makes a layer in training mode.
func NewDropout(p float64) *Dropout {
	if !(p >= 0 && p <= 1) {
		refuse("nn.NewDropout", "the probability has to be between 0 and 1, but got %v", p)
	}
	return &Dropout{P: p, Training: true}
}

// Forward keeps the shape.
func (d *Dropout) Forward(x *torch.Tensor) *torch.Tensor {
	if !d.Training {
		return x
	}
	return torch.Dropout(x, d.P, true)
}
