// Package abi is the only cgo package over libtorch: it opens the libraries, checks versions and calls the functions
// of gospml_torch.h. It knows no tensors, only handles, frames and results.
//
// Every call that can do heavy work passes a semaphore of one slot per core, so that many goroutines do not make the
// Go runtime start many OS threads, each of which would grow an OpenMP team and allocator caches of its own.
package abi

import "runtime"

// ABI is the number that the library must report; it equals GOSPML_TORCH_ABI of the header.
const ABI = 2

// Sizes of a frame; they equal the header's.
const (
	MaxArgs    = 20
	Inline     = 24
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
	Handle         = 20
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
	ModeSteady    = 2 // only fixes the number of threads of a call
)

// Switches of the process; they equal the header's.
const (
	FlagTF32               = 0
	FlagCuDNNBenchmark     = 1
	FlagCuDNNDeterministic = 2
	FlagDeterministic      = 3
	FlagAnomaly            = 4
	FlagMatmulPrecision    = 5
)

// contended is the flag of a call beside which others run (GS_CONTENDED).
const contended = 1

// Frame holds the arguments of one call and, after it succeeded, its results (gs_frame). It has no pointers and lives
// on the caller's stack.
type Frame struct {
	N, Used     uint32
	Bytes       uint64 // of storage that did not exist before the call, 0 in a scope
	Scope, Slot uint32 // owner of the new handles, 0 = the caller; place of the first one there
	flags       uint32
	Tag         [MaxArgs]uint8
	W           [MaxArgs]uint64
	Data        [Inline]uint64
}

// Failure is the error of an operator call (gs_error).
type Failure struct {
	Kind int64
	msg  uintptr
}

// Result is what the calls that are no operator give back (gs_result).
type Result struct {
	Kind, N     int32
	Tag         [8]uint8
	W           [MaxResults]uint64
	Bytes       uint64
	Scope, Slot uint32
	msg         uintptr
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

// slots is the semaphore around calls.
var slots = newSemaphore(runtime.NumCPU())
