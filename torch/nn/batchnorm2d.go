package nn

import "github.com/gospml/gospml/torch"

// BatchNorm2d normalises each channel of [B, C, H, W] over batch and positions (torch.nn.BatchNorm2d; Ioffe and Szegedy
// 2015, arXiv:1502.03167):
//
//	y = (x - mean) / √(var + Eps) · Weight + Bias
//
// In training mode mean and (biased) variance are the batch's, and the running statistics move by Momentum toward the batch's
// mean and unbiased variance; in evaluation mode they are the running ones.
type BatchNorm2d struct {
	Weight *torch.Tensor // [C]; nil with Affine(false)
	Bias   *torch.Tensor // [C]; nil with Affine(false)

	RunningMean       *torch.Tensor `torch:",buffer"` // [C]
	RunningVar        *torch.Tensor `torch:",buffer"` // [C]
	NumBatchesTracked *torch.Tensor `torch:",buffer"` // int64 []: batches seen in training mode

	NumFeatures   int
	Eps, Momentum float64
	Training      bool // set by SetTraining
	Frozen        bool // set by FreezeBatchNorm: running statistics are used and kept in training mode too

	sum func(*torch.Tensor) *torch.Tensor // set by SyncBatchNorm
}

// NewBatchNorm2d starts with gain 1, bias 0, mean 0, variance 1. Options: Eps, Momentum, Affine, DType, Device, Generator, NoInit.
func NewBatchNorm2d(numFeatures int, opts ...Option) *BatchNorm2d {
	c := gather("nn.NewBatchNorm2d", factory+"Eps Momentum Affine ", opts)
	b := &BatchNorm2d{
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

// Forward keeps the shape [B, C, H, W]. In training mode it needs more than one value a channel and writes the
// running statistics.
func (b *BatchNorm2d) Forward(x *torch.Tensor) *torch.Tensor {
	train := b.Training && !b.Frozen
	torch.ReplayIf(func() bool { return train == (b.Training && !b.Frozen) })
	if train && b.sum != nil {
		return b.synced(x)
	}
	if train {
		b.check(x)
		b.NumBatchesTracked.AddScalar_(1)
	} else if n := x.Dim(); n != 4 {
		refuse("nn.BatchNorm2d", "expected 4D input, got %dD input", n)
	}
	return torch.BatchNorm(x, b.Weight, b.Bias, b.RunningMean, b.RunningVar, train, b.Momentum, b.Eps, true)
}

func (b *BatchNorm2d) check(x *torch.Tensor) {
	s := x.Shape()
	if len(s) != 4 {
		refuse("nn.BatchNorm2d", "expected 4D input, got %dD input", len(s))
	}
	if s[0]*s[2]*s[3] == 1 {
		refuse("nn.BatchNorm2d", "expected more than 1 value per channel when training, got input size %v; use a larger batch, or FreezeBatchNorm", s)
	}
}

// constant says whether the layer is a fixed scale and shift: frozen statistics, and gain and bias that are not trained.
func (b *BatchNorm2d) constant() bool {
	return b.Frozen && (b.Weight == nil || !b.Weight.RequiresGrad() && !b.Bias.RequiresGrad())
}

// fold gives the scale and the shift [C] of a constant layer.
func (b *BatchNorm2d) fold() (scale, shift *torch.Tensor) {
	torch.NoGrad(func() {
		scale = b.RunningVar.AddScalar(b.Eps).Rsqrt()
		if b.Weight != nil {
			scale = scale.Mul(b.Weight)
		}
		shift = b.RunningMean.Mul(scale).Neg()
		if b.Bias != nil {
			shift = shift.Add(b.Bias)
		}
	})
	return scale, shift
}

// ConvNorm is a convolution and the normalisation after it. Where the normalisation is constant (FreezeBatchNorm with true, and gain and bias
// that do not require gradients) it is folded into the convolution's weight and bias: no pass over the activations, and only the convolution's
// input is kept for backward. The convolution's own weight is trained as without folding; results differ by rounding.
func ConvNorm(x *torch.Tensor, conv *Conv2d, norm *BatchNorm2d) *torch.Tensor {
	if !norm.constant() {
		y := conv.Forward(x)
		defer y.Free()
		return norm.Forward(y)
	}
	var made temporaries
	defer made.free()
	scale, shift := norm.fold()
	made.add(scale)
	if conv.Bias != nil {
		shift = made.add(shift).Add(made.add(conv.Bias.Mul(scale)))
	}
	weight := made.add(conv.Weight.Mul(made.add(scale.View(-1, 1, 1, 1))))
	return torch.Conv2d(x, weight, made.add(shift), conv.Stride[:], conv.Padding[:], conv.Dilation[:], conv.Groups)
}
