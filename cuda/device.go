package cuda

import "github.com/gospml/gospml/cuda/internal/abi"

// Properties are facts about a device. Sizes are bytes, clocks kHz.
type Properties struct {
	Name                      string
	Major, Minor              int // compute capability
	TotalMemory               int64
	MultiProcessors           int
	MaxThreadsPerProcessor    int
	WarpSize                  int
	L2Cache                   int64
	SharedMemoryPerProcessor  int64
	SharedMemoryPerBlockOptIn int64
	RegistersPerProcessor     int
	Clock, MemoryClock        int
	MemoryBusWidth            int // bits
	Integrated                bool
	PCIBus                    int
}

// Bandwidth is the memory's rate in bytes per second, two transfers a clock; 0 where the driver does not tell the clock.
func (p Properties) Bandwidth() float64 {
	return 2 * float64(p.MemoryClock) * 1000 * float64(p.MemoryBusWidth) / 8
}

// DeviceProperties returns the facts about a device.
func DeviceProperties(device int) (Properties, error) {
	var name string
	r, err := call("device properties", func() (r abi.Result) {
		r, name = abi.Properties(device)
		return r
	})
	if err != nil {
		return Properties{}, err
	}
	w := r.W
	return Properties{
		Name: name, Major: int(w[0]), Minor: int(w[1]), TotalMemory: w[2], MultiProcessors: int(w[3]), MaxThreadsPerProcessor: int(w[4]), WarpSize: int(w[5]),
		L2Cache: w[6], SharedMemoryPerProcessor: w[7], SharedMemoryPerBlockOptIn: w[8], RegistersPerProcessor: int(w[9]), Clock: int(w[10]), MemoryClock: int(w[11]),
		MemoryBusWidth: int(w[12]), Integrated: w[13] != 0, PCIBus: int(w[14]),
	}, nil
}

// Synchronize waits until all work queued on a device is done, and returns the error of a kernel that failed meanwhile.
func Synchronize(device int) error {
	return do("synchronize", func() abi.Result { return abi.Synchronize(device) })
}
