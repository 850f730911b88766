package nn

import "github.com/gospml/gospml/torch"

// BatchNorm1d normalises each feature of [B, C] or [B, C, L] over batch and positions (torch.nn.BatchNorm1d); see BatchNorm2d.
type BatchNorm1d struct {
	Weight *torch.Tensor // [C]; nil with Affine(false)
	Bias   *torch.Tensor // [C]; nil with Affine(false)

	RunningMean       *torch.Tensor `torch:",buffer"` // [C]
	RunningVar        *torch.Tensor `torch:",buffer"` // [C]
	NumBatchesTracked *torch.Tensor `torch:",buffer"` // int64 []: batches seen in training mode

	NumFeatures   int
	Eps, Momentum float64
	Training      bool // set by SetTraining
	Frozen        bool // set by FreezeBatchNorm: running statistics are used and kept in training mode too
}

// NewBatchNorm1d starts with gain 1, bias 0, mean 0, variance 1. Options: Eps, Momentum, Affine, DType, Device, Generator, NoInit.
func NewBatchNorm1d(numFeatures int, opts ...Option) *BatchNorm1d {
	c := gather("nn.NewBatchNorm1d", factory+"Eps Momentum Affine ", opts)
	b := &BatchNorm1d{
		RunningMean: c.zeros(numFeatures), RunningVar: c.ones(numFeatures),
		NumBatchesTracked: torch.Zeros(torch.S(), torch.Int64, c.device),
		NumFeatures:       numFeatures, Eps: c.eps, Momentum: c.momentum, Training: true,
	}
	if c.affine {
		b.Weight, b.Bias = c.ones(numFeatures), c.zeros(numFeatures)
		trained(b.Weight, b.Bias)
	}
	return b
}

// Forward keeps the shape [B, C] or [B, C, L]. In training mode it needs more than one value a feature and writes the
// running statistics.
func (b *BatchNorm1d) Forward(x *torch.Tensor) *torch.Tensor {
	s := x.Shape()
	if len(s) != 2 && len(s) != 3 {
		refuse("nn.BatchNorm1d", "expected 2D or 3D input, got %dD input", len(s))
	}
	train := b.Training && !b.Frozen
	torch.ReplayIf(func() bool { return train == (b.Training && !b.Frozen) })
	if train {
		if s[0] == 1 && (len(s) == 2 || s[2] == 1) {
			refuse("nn.BatchNorm1d", "expected more than 1 value per channel when training, got input size %v; use a larger batch, or FreezeBatchNorm", s)
		}
		b.NumBatchesTracked.AddScalar_(1)
	}
	return torch.BatchNorm(x, b.Weight, b.Bias, b.RunningMean, b.RunningVar, train, b.Momentum, b.Eps, true)
}
