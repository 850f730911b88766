// Package link is how packages below torch that call libtorch themselves (dist, jit) reach what is inside a Tensor. Package
// torch fills it in; a tensor is a *torch.Tensor.
package link

import "github.com/gospml/gospml/torch/internal/abi"

var (
	// Handle returns a tensor's handle or panics with a *torch.Error of KindHandle. The tensor must be kept alive by the caller.
	Handle func(op string, tensor any) uint64
	// Own makes a tensor of a result's handle in W[i].
	Own func(r *abi.Result, i int) any
	// Error makes a *torch.Error of a failed result, nil of another.
	Error func(op string, r *abi.Result) error
)
