package nn

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Layer takes one tensor and returns one.
type Layer interface {
	Forward(x *torch.Tensor) *torch.Tensor
}

// Identity returns its input (torch.nn.Identity).
type Identity struct{}

// Forward returns x itself.
func (Identity) Forward(x *torch.Tensor) *torch.Tensor { return x }

// Flatten joins the dimensions StartDim to EndDim, both included (torch.nn.Flatten).
type Flatten struct{ StartDim, EndDim int }

// NewFlatten keeps the first dimension and joins the others.
func NewFlatten() *Flatten { return &Flatten{StartDim: 1, EndDim: -1} }

// Forward returns a view where the memory allows, else a copy.
func (f *Flatten) Forward(x *torch.Tensor) *torch.Tensor { return x.Flatten(f.StartDim, f.EndDim) }

// refuse panics with the error of a layer's wrong use.
func refuse(op, format string, arguments ...any) {
	panic(&torch.Error{Kind: torch.KindValue, Op: op, Msg: fmt.Sprintf(format, arguments...)})
}
