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
	training, p := d.Training, d.P
	torch.ReplayIf(func() bool { return d.Training == training && d.P == p })
	if !d.Training {
		return x
	}
	return torch.Dropout(x, d.P, true)
}

// Dropout2d zeroes whole channels of [B, C, H, W] in training mode (torch.nn.Dropout2d).
type Dropout2d struct {
	P        float64
	Training bool // set by SetTraining
}

// NewDropout2d makes a layer in training mode.
func NewDropout2d(p float64) *Dropout2d {
	NewDropout(p) // checks p
	return &Dropout2d{P: p, Training: true}
}

// Forward keeps the shape.
func (d *Dropout2d) Forward(x *torch.Tensor) *torch.Tensor {
	training, p := d.Training, d.P
	torch.ReplayIf(func() bool { return d.Training == training && d.P == p })
	if !d.Training {
		return x
	}
	return torch.FeatureDropout(x, d.P, true)
}

// DropPath zeroes whole elements of a batch with probability P in training mode and scales the others by 1/(1-P): stochastic
// depth (timm's DropPath; Huang et al. 2016, arXiv:1603.09382).
type DropPath struct {
	P        float64
	Training bool // set by SetTraining
}

// NewDropPath makes a layer in training mode.
func NewDropPath(p float64) *DropPath {
	NewDropout(p) // checks p
	return &DropPath{P: p, Training: true}
}

// Forward keeps the shape [B, *].
func (d *DropPath) Forward(x *torch.Tensor) *torch.Tensor {
	training, p := d.Training, d.P
	torch.ReplayIf(func() bool { return d.Training == training && d.P == p })
	if !d.Training || d.P == 0 {
		return x
	}
	shape := make([]int, x.Dim())
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = x.Size(0)
	mask := torch.Empty(shape, x.DType(), x.Device())
	defer mask.Free()
	mask.Bernoulli_(1-d.P, nil)
	if d.P < 1 {
		mask.DivScalar_(1 - d.P)
	}
	return x.Mul(mask)
}
