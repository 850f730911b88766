// Package abi is the only cgo package over libtorch: it opens the libraries, checks versions and calls the functions
// of torch/csrc/gospml_torch.h. It knows no tensors, only handles, frames and results.
//
// Every call that can do heavy work passes a semaphore of one slot per core, so that many goroutines do not make the
// Go runtime start many OS threads, each of which would grow an OpenMP team and allocator caches of its own.
package abi

import "runtime"

// ABI is the number that the library must report; it equals GOSPML_TORCH_ABI of the header.
const ABI = 1

// Sizes of a frame; they equal the header's.
const (
	MaxArgs    = 20
	Inline     = 40
	MaxResults = 6
	MaxDims    = 16
)

// Tags of arguments and results; they equal the header's.
const (
	None      = 0
	Tensor    = 1
	Int       = 2
	Double    = 3
	Bool      = 4
	Str       = 5
	Ints      = 6
	Doubles   = 7
	Bools     = 8
	Tensors   = 9
	Device    = 10
	Generator = 11
	Default   = 12
	Far       = 0x80
)

// Kinds of an error; they equal the header's. KindLibrary is added on this side.
const (
	OK             = 0
	Runtime        = 1
	Index          = 2
	Value          = 3
	Type           = 4
	NotImplemented = 5
	OutOfMemory    = 6
	Linalg         = 7
	Internal       = 8
	BadCall        = 9
)

// Flags of a Desc.
const (
	FlagRequiresGrad = 1
	FlagContiguous   = 2
	FlagLeaf         = 4
	FlagChannelsLast = 8
	FlagInference    = 16
	FlagView         = 32
)

// Thread-local modes.
const (
	ModeGrad      = 0
	ModeInference = 1
)

// Frame holds the arguments of one call (gs_frame). It has no pointers and lives on the caller's stack.
type Frame struct {
	N, Used uint32
	Tag     [MaxArgs]uint8
	_       [4]uint8
	W       [MaxArgs]uint64
	Data    [Inline]uint64
}

// Result is what any call gives back (gs_result).
type Result struct {
	Kind, N  int32
	Tag      [8]uint8
	W        [MaxResults]uint64
	Bytes    uint64
	Scope    uint32
	Reserved uint32
	msg      uintptr
}

// Desc describes a tensor (gs_desc).
type Desc struct {
	DType, Device, NDim int32
	Flags               uint32
	Numel, Itemsize     int64
	Data                uint64
	StorageBytes        int64
	Version             int64
	Sizes, Strides      [MaxDims]int64
}

// LoadError says why libtorch or our library could not be used, in one sentence that names the next command.
type LoadError struct{ Reason string }

func (e *LoadError) Error() string { return "torch: " + e.Reason }

// slots is the semaphore around calls: n < 0 means that -n callers wait on wake.
var slots = newSemaphore(runtime.NumCPU())
