package nn

import "github.com/gospml/gospml/torch"

// GroupNorm normalises the channels of [B, C, *] in NumGroups groups, for each element over the group's channels and
// positions (torch.nn.GroupNorm; Wu and He 2018, arXiv:1803.08494).
type GroupNorm struct {
	Weight *torch.Tensor // [C]; nil with Affine(false)
	Bias   *torch.Tensor // [C]; nil with Affine(false)

	NumGroups, NumChannels int
	Eps                    float64
}

// NewGroupNorm starts with gain 1 and bias 0. Options: Eps, Affine, DType, Device, Generator, NoInit.
func NewGroupNorm(numGroups, numChannels int, opts ...Option) *GroupNorm {
	c := gather("nn.NewGroupNorm", factory+"Eps Affine ", opts)
	if numGroups < 1 || numChannels%numGroups != 0 {
		refuse("nn.NewGroupNorm", "%d channels cannot be cut into %d groups", numChannels, numGroups)
	}
	l := &GroupNorm{NumGroups: numGroups, NumChannels: numChannels, Eps: c.eps}
	if c.affine {
		l.Weight, l.Bias = c.ones(numChannels), c.zeros(numChannels)
		trained(l.Weight, l.Bias)
	}
	return l
}

// Forward keeps the shape [B, C, *].
func (l *GroupNorm) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.GroupNorm(x, l.NumGroups, l.Weight, l.Bias, l.Eps)
}

// InstanceNorm2d normalises each channel of each element of [B, C, H, W] over its positions (torch.nn.InstanceNorm2d; Ulyanov
// et al. 2016, arXiv:1607.08022).
type InstanceNorm2d struct {
	Weight *torch.Tensor // [C]; with Affine(true) only
	Bias   *torch.Tensor // [C]; with Affine(true) only

	NumFeatures int
	Eps         float64
}

// NewInstanceNorm2d has no gain and bias unless Affine(true) asks for them, as in Python, and keeps no running statistics.
// Options: Eps, Affine, DType, Device, Generator, NoInit.
func NewInstanceNorm2d(numFeatures int, opts ...Option) *InstanceNorm2d {
	c := gather("nn.NewInstanceNorm2d", factory+"Eps Affine ", append([]Option{Affine(false)}, opts...))
	l := &InstanceNorm2d{NumFeatures: numFeatures, Eps: c.eps}
	if c.affine {
		l.Weight, l.Bias = c.ones(numFeatures), c.zeros(numFeatures)
		trained(l.Weight, l.Bias)
	}
	return l
}

// Forward keeps the shape [B, C, H, W].
func (l *InstanceNorm2d) Forward(x *torch.Tensor) *torch.Tensor {
	if n := x.Dim(); n != 4 {
		refuse("nn.InstanceNorm2d", "expected 4D input, got %dD input", n)
	}
	return torch.InstanceNorm(x, l.Weight, l.Bias, nil, nil, true, 0, l.Eps, true)
}

// RMSNorm divides the last dimensions by their root mean square (torch.nn.RMSNorm; Zhang and Sennrich 2019, arXiv:1910.07467).
type RMSNorm struct {
	Weight *torch.Tensor // NormalizedShape; nil with Affine(false)

	NormalizedShape []int
	Eps             float64
}

// NewRMSNorm starts with gain 1. Without the option Eps it is the machine epsilon of the element type, as in Python.
// Options: Eps, Affine, DType, Device, Generator, NoInit.
func NewRMSNorm(normalizedShape []int, opts ...Option) *RMSNorm {
	c := gather("nn.NewRMSNorm", factory+"Eps Affine ", append([]Option{Eps(0)}, opts...))
	l := &RMSNorm{NormalizedShape: append([]int(nil), normalizedShape...), Eps: c.eps}
	if l.Eps == 0 {
		l.Eps = map[torch.DType]float64{torch.Float64: 0x1p-52, torch.Float32: 0x1p-23, torch.Float16: 0x1p-10, torch.BFloat16: 0x1p-7}[c.dtype]
	}
	if c.affine {
		l.Weight = c.ones(normalizedShape...)
		trained(l.Weight)
	}
	return l
}

// Forward keeps the shape [*, NormalizedShape…].
func (l *RMSNorm) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.RMSNorm(x, l.NormalizedShape, l.Weight, l.Eps)
}
