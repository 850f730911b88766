package nn

import "github.com/gospml/gospml/torch"

// SyncBatchNorm makes the live batch normalisation of a module's images take its statistics over all processes, as torch.nn.SyncBatchNorm does: sum adds a tensor up
// over them, and must be differentiable (the gradient of a sum is the sum of the processes' gradients). All processes must run the module as often, each on its part of
// the batch, which may be empty. nil undoes it. It says whether the module has such layers.
func SyncBatchNorm(m any, sum func(*torch.Tensor) *torch.Tensor) bool {
	found := false
	for _, l := range Modules(m) {
		if b, ok := l.(*BatchNorm2d); ok && !b.Frozen {
			b.sum, found = sum, true
		}
	}
	return found
}

// synced is Forward in training mode with the statistics of all processes.
func (b *BatchNorm2d) synced(x *torch.Tensor) *torch.Tensor {
	if n := x.Dim(); n != 4 {
		refuse("nn.BatchNorm2d", "expected 4D input, got %dD input", n)
	}
	b.NumBatchesTracked.AddScalar_(1)
	kind, c := x.DType(), b.NumFeatures
	h := x.ToDType(torch.Float32)
	over := []int{0, 2, 3}
	mine := torch.Full(torch.S(1), float64(x.Size(0)*x.Size(2)*x.Size(3)), torch.Float32, x.Device())
	all := b.sum(torch.Cat([]*torch.Tensor{h.SumDim(over, false), mine}, 0))
	n := all.Detach().Select(0, c).Item()
	if n <= 1 {
		refuse("nn.BatchNorm2d", "expected more than 1 value per channel when training, got %v in all processes", n)
	}
	wide := func(t *torch.Tensor) *torch.Tensor { return t.Reshape(1, c, 1, 1) }
	mean := all.Narrow(0, 0, c).DivScalar(n)
	d := h.Sub(wide(mean))
	variance := b.sum(d.Mul(d).SumDim(over, false)).DivScalar(n)
	torch.NoGrad(func() {
		b.RunningMean.Lerp_(mean.Detach(), b.Momentum)
		b.RunningVar.Lerp_(variance.Detach().MulScalar(n/(n-1)), b.Momentum)
	})
	scale := variance.AddScalar(b.Eps).Rsqrt()
	if b.Weight != nil {
		scale = scale.Mul(b.Weight)
	}
	y := d.Mul(wide(scale))
	if b.Bias != nil {
		y = y.Add(wide(b.Bias))
	}
	return y.ToDType(kind)
}
