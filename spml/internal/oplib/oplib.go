// Package oplib opens the libraries of our operators: once, at the first use of any of them.
package oplib

import (
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

// Names of the files.
const (
	CPULibrary  = "libgospml-ops-cpu.so"
	CUDALibrary = "libgospml-ops-cuda.so" // made by `make cuda`
)

// Emulated is set where the test device has kernels of its own (spml/csrc/cuda/emulator).
var Emulated atomic.Bool

// CPU loads the operators with their CPU kernels and says why they cannot be used; nil where they can.
var CPU = sync.OnceValue(func() error {
	if err := torch.Available(); err != nil {
		return err
	}
	return load(CPULibrary)
})

// CUDA loads the CUDA kernels, after the CUDA part of libtorch and the operators.
var CUDA = sync.OnceValue(func() error {
	if err := CPU(); err != nil {
		return err
	}
	if err := cuda.Available(); err != nil {
		return err
	}
	return load(CUDALibrary)
})

func load(name string) error {
	path, err := native.FindLib(name)
	if err != nil {
		return err
	}
	return torch.LoadOps(path)
}
