package torch

import (
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/internal/link"
)

func init() {
	link.Handle = func(op string, tensor any) uint64 { return tensor.(*Tensor).handle(op) }
	link.OwnList = func(r *abi.Result) []any {
		ts := ownList(r)
		out := make([]any, len(ts))
		for i, t := range ts {
			out[i] = t
		}
		return out
	}
	link.Follow = follow
	link.Error = func(op string, r *abi.Result) error {
		if r.Kind == abi.OK {
			return nil
		}
		return &Error{Kind: Kind(r.Kind), Op: op, Msg: words(r.Message())}
	}
}
