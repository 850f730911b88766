package torch

import (
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/internal/link"
)

func init() {
	link.Handle = func(op string, tensor any) uint64 { return tensor.(*Tensor).handle(op) }
	link.Own = func(r *abi.Result, i int) any {
		t := own(r.W[i], r.Scope, r.Slot+uint32(i))
		if i == 0 {
			pressure(r.Bytes)
		}
		return t
	}
	link.Error = func(op string, r *abi.Result) error {
		if r.Kind == abi.OK {
			return nil
		}
		return &Error{Kind: Kind(r.Kind), Op: op, Msg: words(r.Message())}
	}
}
