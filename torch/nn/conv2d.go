package nn

import "github.com/gospml/gospml/torch"

// Conv2d is a two-dimensional convolution with zero padding (torch.nn.Conv2d).
type Conv2d struct {
	Weight *torch.Tensor // [OutChannels, InChannels/Groups, KernelSize[0], KernelSize[1]]
	Bias   *torch.Tensor // [OutChannels]; nil without bias

	InChannels, OutChannels               int
	KernelSize, Stride, Padding, Dilation [2]int // height, width
	Groups                                int
}

// NewConv2d draws Weight and Bias from U(±1/√fan_in), fan_in = inChannels/groups · kernel area. kernel is the side of a
// square window. Options: KernelSize, Stride, Padding, Dilation, Groups, Bias, DType, Device, Generator, NoInit.
func NewConv2d(inChannels, outChannels, kernel int, opts ...Option) *Conv2d {
	c := gather("nn.NewConv2d", factory+"KernelSize Stride Padding Dilation Groups Bias ", opts)
	if c.kernel == [2]int{} {
		c.kernel = [2]int{kernel, kernel}
	}
	c.checkConv("nn.NewConv2d", inChannels, outChannels)
	l := &Conv2d{
		Weight:     c.empty(outChannels, inChannels/c.groups, c.kernel[0], c.kernel[1]),
		InChannels: inChannels, OutChannels: outChannels,
		KernelSize: c.kernel, Stride: c.stride, Padding: c.padding, Dilation: c.dilation, Groups: c.groups,
	}
	if c.bias {
		l.Bias = c.empty(outChannels)
	}
	c.reset(l.Weight, l.Bias)
	trained(l.Weight, l.Bias)
	return l
}

// Forward maps [B, InChannels, H, W] to [B, OutChannels, H', W'], H' = ⌊(H + 2·padding - dilation·(kernel-1) - 1)/stride⌋ + 1.
func (l *Conv2d) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.Conv2d(x, l.Weight, l.Bias, l.Stride[:], l.Padding[:], l.Dilation[:], l.Groups)
}
