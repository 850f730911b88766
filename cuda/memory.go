package cuda

import (
	"fmt"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/torch"
)

// Level is a quantity now and at its highest since ResetPeak.
type Level struct{ Current, Peak int64 }

// MemoryStats are those of libtorch's caching allocator, as torch.cuda.memory_stats has them.
type MemoryStats struct {
	Allocated, Reserved, Active, Requested Level // bytes: in tensors; taken from the driver; in blocks in use; as asked for
	Allocations, Segments                  Level // counts
	Retries, OutOfMemory                   int64 // times the cache was emptied to find room, and in vain
	DeviceAllocs, DeviceFrees              int64 // calls of the driver
}

// Memory returns the allocator's statistics for a device.
func Memory(device int) (MemoryStats, error) {
	r, err := call("memory statistics", func() abi.Result { return abi.MemoryStats(device) })
	if err != nil {
		return MemoryStats{}, err
	}
	l := func(i int) Level { return Level{r.W[2*i], r.W[2*i+1]} }
	return MemoryStats{l(0), l(1), l(2), l(3), l(4), l(5), r.W[12], r.W[13], r.W[14], r.W[15]}, nil
}

// MemoryInfo returns what the driver says is free on a device, and all it has, in bytes.
func MemoryInfo(device int) (free, total int64, err error) {
	r, err := call("memory", func() abi.Result { return abi.MemoryInfo(device) })
	return r.W[0], r.W[1], err
}

// EmptyCache gives memory that no tensor uses back to the driver.
func EmptyCache() error { return do("empty the cache", abi.EmptyCache) }

// ResetPeak sets the peaks of MemoryStats to the current levels.
func ResetPeak(device int) error {
	return do("reset the peaks", func() abi.Result { return abi.ResetPeak(device) })
}

// SetMemoryCap limits what the allocator may take from a device, in bytes; beyond it, operations fail with ErrOutOfMemory.
func SetMemoryCap(device int, bytes int64) error {
	_, total, err := MemoryInfo(device)
	if err != nil {
		return err
	}
	if bytes <= 0 || bytes > total {
		return fmt.Errorf("cuda: a cap of %d bytes is not within device %d's %d", bytes, device, total)
	}
	return do("cap the memory", func() abi.Result { return abi.SetFraction(device, float64(bytes)/float64(total)) })
}

// Pin copies a CPU tensor into page-locked memory, from and to which copies run beside the program.
func Pin(t *torch.Tensor) (pinned *torch.Tensor, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	err = torch.Try(func() { pinned = torch.Call("aten::pin_memory", t, nil)[0].(*torch.Tensor) })
	return pinned, err
}

// IsPinned reports whether a tensor lies in page-locked memory.
func IsPinned(t *torch.Tensor) (pinned bool, err error) {
	if err := Available(); err != nil {
		return false, err
	}
	err = torch.Try(func() { pinned = torch.Call("aten::is_pinned", t, nil)[0].(bool) })
	return pinned, err
}

// CopyAsync queues a copy of src into dst, which has the same shape, in the current stream and returns at once where one is pinned and the other on a
// card. Neither may be touched or freed before the stream has come so far.
func CopyAsync(dst, src *torch.Tensor) error {
	if err := Available(); err != nil {
		return err
	}
	return torch.Try(func() { torch.Call("aten::copy_", dst, src, true) })
}

// ToAsync queues a copy of t to a device in the current stream and returns its tensor at once where t is pinned; t must be kept until the stream has come so far.
func ToAsync(t *torch.Tensor, device int) (moved *torch.Tensor, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	err = torch.Try(func() {
		moved = torch.Call("aten::to.dtype_layout", t, nil, nil, torch.CUDA(device), nil, true, false, nil)[0].(*torch.Tensor)
	})
	return moved, err
}
