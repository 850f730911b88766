// Package link is how packages below torch that call libtorch themselves (dist, jit) reach what is inside a Tensor. Package
// torch fills it in; a tensor is a *torch.Tensor.
package link

import "github.com/gospml/gospml/torch/internal/abi"

var (
	// Handle returns a tensor's handle or panics with a *torch.Error of KindHandle. The tensor must be kept alive by the caller.
	Handle func(op string, tensor any) uint64
	// OwnList makes tensors of the list in a result's W[0]; an undefined one is nil.
	OwnList func(r *abi.Result) []any
	// Follow ties a number among the arguments of the operator called last to get, where a step is being recorded: replays read it anew.
	Follow func(argument int, get func() float64)
	// Error makes a *torch.Error of a failed result, nil of another.
	Error func(op string, r *abi.Result) error
)
