package nn

import "github.com/gospml/gospml/torch"

// MaxPool2d takes maxima over windows (torch.nn.MaxPool2d).
type MaxPool2d struct {
	KernelSize, Stride, Padding, Dilation [2]int // height, width
	CeilMode                              bool   // keep the windows that reach over the border
}

// NewMaxPool2d makes square windows that do not overlap. Options: KernelSize, Stride, Padding, Dilation.
func NewMaxPool2d(kernel int, opts ...Option) *MaxPool2d {
	c := gather("nn.NewMaxPool2d", " KernelSize Stride Padding Dilation ", opts)
	c.window(kernel)
	return &MaxPool2d{KernelSize: c.kernel, Stride: c.stride, Padding: c.padding, Dilation: c.dilation}
}

// window fills in the kernel and, where it was not given, the stride.
func (c *config) window(kernel int) {
	if c.kernel == [2]int{} {
		c.kernel = [2]int{kernel, kernel}
	}
	if !c.hasStride {
		c.stride = c.kernel
	}
}

// Forward maps [B, C, H, W] to [B, C, H', W'], H' = ⌊(H + 2·padding - dilation·(kernel-1) - 1)/stride⌋ + 1.
func (p *MaxPool2d) Forward(x *torch.Tensor) *torch.Tensor {
	return x.MaxPool2d(p.KernelSize[:], p.Stride[:], p.Padding[:], p.Dilation[:], p.CeilMode)
}

// AvgPool2d takes means over windows (torch.nn.AvgPool2d).
type AvgPool2d struct {
	KernelSize, Stride, Padding [2]int // height, width
	CeilMode                    bool   // keep the windows that reach over the border
	CountIncludePad             bool   // the zeros of the padding count as values
}

// NewAvgPool2d makes square windows that do not overlap; padding counts. Options: KernelSize, Stride, Padding.
func NewAvgPool2d(kernel int, opts ...Option) *AvgPool2d {
	c := gather("nn.NewAvgPool2d", " KernelSize Stride Padding ", opts)
	c.window(kernel)
	return &AvgPool2d{KernelSize: c.kernel, Stride: c.stride, Padding: c.padding, CountIncludePad: true}
}

// Forward maps [B, C, H, W] to [B, C, H', W'], H' = ⌊(H + 2·padding - kernel)/stride⌋ + 1.
func (p *AvgPool2d) Forward(x *torch.Tensor) *torch.Tensor {
	return x.AvgPool2d(p.KernelSize[:], p.Stride[:], p.Padding[:], p.CeilMode, p.CountIncludePad)
}

// AdaptiveAvgPool2d takes means over windows that it chooses so that the output has this height and width
// (torch.nn.AdaptiveAvgPool2d).
type AdaptiveAvgPool2d struct{ OutputSize [2]int }

// Forward maps [B, C, H, W] to [B, C, OutputSize[0], OutputSize[1]].
func (p AdaptiveAvgPool2d) Forward(x *torch.Tensor) *torch.Tensor {
	return x.AdaptiveAvgPool2d(p.OutputSize[0], p.OutputSize[1])
}
