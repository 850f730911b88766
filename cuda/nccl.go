package cuda

import (
	"time"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/internal/hook"
)

// A program that imports this package can use the backend "nccl" of torch/dist.
func init() {
	hook.NCCL = func(group, store uint64, rank, size int, timeout time.Duration) error {
		return do("NCCL", func() abi.Result { return abi.AttachNCCL(group, store, rank, size, timeout.Milliseconds()) })
	}
}
