package nn

import "github.com/gospml/gospml/torch"

// Hooked is a layer with hooks (register_forward_pre_hook, register_forward_hook, register_full_backward_hook). It stands in
// the layer's place, for instance in a Sequential, and has the layer's keys. Nil hooks are not called.
type Hooked struct {
	Layer Layer `torch:"."`

	// Before sees the input and may give another one.
	Before func(l Layer, x *torch.Tensor) *torch.Tensor `torch:"-"`
	// After sees input and output and may give another output.
	After func(l Layer, x, y *torch.Tensor) *torch.Tensor `torch:"-"`
	// Backward sees the gradient of the output and may give another one. It runs where torch.Function's Backward does.
	Backward func(l Layer, grad *torch.Tensor) *torch.Tensor `torch:"-"`
}

// Forward runs the hooks around the layer.
func (h *Hooked) Forward(x *torch.Tensor) *torch.Tensor {
	if h.Before != nil {
		x = h.Before(h.Layer, x)
	}
	y := h.Layer.Forward(x)
	if h.After != nil {
		y = h.After(h.Layer, x, y)
	}
	if h.Backward != nil && y.RequiresGrad() {
		y.RegisterHook(func(g *torch.Tensor) *torch.Tensor { return h.Backward(h.Layer, g) })
	}
	return y
}
