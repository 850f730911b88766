package cuda

import (
	"fmt"

	"github.com/gospml/gospml/cuda/internal/abi"
)

// Status is what NVML knows of a device at the moment.
type Status struct {
	Name, UUID              string
	Driver                  string  // version
	MemoryTotal, MemoryUsed int64   // bytes, of all processes
	GPUBusy, MemoryBusy     int     // percent of the last second
	Temperature             int     // °C
	Power                   float64 // W; 0 where the device does not tell
}

// DeviceStatus asks the driver's management library. It needs the driver only, not libtorch; device counts as nvidia-smi does, whatever CUDA_VISIBLE_DEVICES says.
func DeviceStatus(device int) (Status, error) {
	n, reason := abi.NVML(device)
	if reason != "" {
		if n.NoDevice {
			return Status{}, fmt.Errorf("cuda: %w: %s", ErrNoDevice, reason)
		}
		return Status{}, fmt.Errorf("cuda: NVML: %s", reason)
	}
	return Status{n.Name, n.UUID, n.Driver, n.MemoryTotal, n.MemoryUsed, n.GPUBusy, n.MemoryBusy, n.Temperature, float64(n.MilliWatts) / 1000}, nil
}
