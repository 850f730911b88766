package cuda

import (
	"time"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch"
)

// A program that imports this package can use the backend "nccl" of torch/dist, and dist.Group.Attach with cards.
func init() {
	hook.Collectives[int(torch.DeviceCUDA)] = hook.Collective{
		Name: "NCCL",
		Attach: func(group, store uint64, rank, size int, timeout time.Duration) error {
			return do("NCCL", func() abi.Result { return abi.AttachNCCL(group, store, rank, size, timeout.Milliseconds()) })
		},
	}
}
