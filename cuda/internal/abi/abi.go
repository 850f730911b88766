// Package abi is the cgo side of package cuda: it asks the driver, opens the CUDA part of libtorch and our library, and
// calls the functions of gospml_cuda.h, which must not be called before Open.
package abi

// Result is what an entry gives back; Message is empty where it succeeded.
type Result struct {
	Message     string
	OutOfMemory bool
	W           [32]int64
}

// NVMLStatus is what NVML knows of a device.
type NVMLStatus struct {
	Name, UUID, Driver      string
	MemoryTotal, MemoryUsed int64
	GPUBusy, MemoryBusy     int
	Temperature             int
	MilliWatts              int
	NoDevice                bool // the reason is that there is none
}
