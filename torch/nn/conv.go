package nn

import "github.com/gospml/gospml/torch"

// Conv1d is a one-dimensional convolution with zero padding (torch.nn.Conv1d).
type Conv1d struct {
	Weight *torch.Tensor // [OutChannels, InChannels/Groups, KernelSize]
	Bias   *torch.Tensor // [OutChannels]; nil without bias

	InChannels, OutChannels               int
	KernelSize, Stride, Padding, Dilation int
	Groups                                int
}

// NewConv1d draws as NewConv2d does. Options: Stride, Padding, Dilation (one number each), Groups, Bias, DType, Device, Generator, NoInit.
func NewConv1d(inChannels, outChannels, kernel int, opts ...Option) *Conv1d {
	c := gather("nn.NewConv1d", factory+"Stride Padding Dilation Groups Bias ", opts)
	c.kernel = [2]int{kernel, kernel}
	c.checkConv("nn.NewConv1d", inChannels, outChannels)
	l := &Conv1d{
		Weight: c.empty(outChannels, inChannels/c.groups, kernel), InChannels: inChannels, OutChannels: outChannels,
		KernelSize: kernel, Stride: c.stride[0], Padding: c.padding[0], Dilation: c.dilation[0], Groups: c.groups,
	}
	if c.bias {
		l.Bias = c.empty(outChannels)
	}
	c.reset(l.Weight, l.Bias)
	trained(l.Weight, l.Bias)
	return l
}

// Forward maps [B, InChannels, L] to [B, OutChannels, L'], L' = ⌊(L + 2·padding - dilation·(kernel-1) - 1)/stride⌋ + 1.
func (l *Conv1d) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.Conv1d(x, l.Weight, l.Bias, []int{l.Stride}, []int{l.Padding}, []int{l.Dilation}, l.Groups)
}

// ConvTranspose2d is the gradient of a Conv2d with respect to its input (torch.nn.ConvTranspose2d).
type ConvTranspose2d struct {
	Weight *torch.Tensor // [InChannels, OutChannels/Groups, KernelSize[0], KernelSize[1]]
	Bias   *torch.Tensor // [OutChannels]; nil without bias

	InChannels, OutChannels                              int
	KernelSize, Stride, Padding, OutputPadding, Dilation [2]int // height, width
	Groups                                               int
}

// NewConvTranspose2d draws as Python does. Options: KernelSize, Stride, Padding, OutputPadding, Dilation, Groups, Bias, DType,
// Device, Generator, NoInit.
func NewConvTranspose2d(inChannels, outChannels, kernel int, opts ...Option) *ConvTranspose2d {
	c := gather("nn.NewConvTranspose2d", factory+"KernelSize Stride Padding OutputPadding Dilation Groups Bias ", opts)
	if c.kernel == [2]int{} {
		c.kernel = [2]int{kernel, kernel}
	}
	c.checkConv("nn.NewConvTranspose2d", inChannels, outChannels)
	l := &ConvTranspose2d{
		Weight: c.empty(inChannels, outChannels/c.groups, c.kernel[0], c.kernel[1]), InChannels: inChannels, OutChannels: outChannels,
		KernelSize: c.kernel, Stride: c.stride, Padding: c.padding, OutputPadding: c.outputPadding, Dilation: c.dilation, Groups: c.groups,
	}
	if c.bias {
		l.Bias = c.empty(outChannels)
	}
	c.reset(l.Weight, l.Bias)
	trained(l.Weight, l.Bias)
	return l
}

// Forward maps [B, InChannels, H, W] to [B, OutChannels, H', W'],
// H' = (H - 1)·stride - 2·padding + dilation·(kernel-1) + output padding + 1.
func (l *ConvTranspose2d) Forward(x *torch.Tensor) *torch.Tensor {
	return torch.ConvTranspose2d(x, l.Weight, l.Bias, l.Stride[:], l.Padding[:], l.OutputPadding[:], l.Groups, l.Dilation[:])
}

// checkConv refuses sizes that no convolution has.
func (c *config) checkConv(op string, in, out int) {
	if in < 1 || out < 1 || c.groups < 1 || in%c.groups != 0 || out%c.groups != 0 {
		refuse(op, "%d input and %d output channels cannot be cut into %d groups", in, out, c.groups)
	}
	if min(c.kernel[0], c.kernel[1], c.stride[0], c.stride[1], c.dilation[0], c.dilation[1]) < 1 || min(c.padding[0], c.padding[1]) < 0 {
		refuse(op, "kernel %v, stride %v and dilation %v must be positive, padding %v not negative", c.kernel, c.stride, c.dilation, c.padding)
	}
}

// AdaptiveMaxPool2d takes maxima over windows that it chooses so that the output has this height and width
// (torch.nn.AdaptiveMaxPool2d).
type AdaptiveMaxPool2d struct{ OutputSize [2]int }

// Forward maps [B, C, H, W] to [B, C, OutputSize[0], OutputSize[1]].
func (p AdaptiveMaxPool2d) Forward(x *torch.Tensor) *torch.Tensor {
	y, at := x.AdaptiveMaxPool2d(p.OutputSize[0], p.OutputSize[1])
	at.Free()
	return y
}

// PixelShuffle maps [B, C·r², H, W] to [B, C, H·r, W·r] (torch.nn.PixelShuffle).
type PixelShuffle struct{ UpscaleFactor int }

// Forward moves channels into space.
func (p PixelShuffle) Forward(x *torch.Tensor) *torch.Tensor { return x.PixelShuffle(p.UpscaleFactor) }
