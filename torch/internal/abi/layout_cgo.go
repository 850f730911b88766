//go:build cgo

package abi

/*
#include "gospml_torch.h"

// The i-th offset, 0 after the last.
static size_t gs_offset(size_t i) {
  static const size_t all[] = {
      offsetof(gs_frame, bytes), offsetof(gs_frame, scope), offsetof(gs_frame, slot), offsetof(gs_frame, flags),
      offsetof(gs_frame, tag), offsetof(gs_frame, w), offsetof(gs_frame, data),
      offsetof(gs_result, tag), offsetof(gs_result, w), offsetof(gs_result, bytes), offsetof(gs_result, scope),
      offsetof(gs_result, slot), offsetof(gs_result, msg),
      offsetof(gs_desc, flags), offsetof(gs_desc, numel), offsetof(gs_desc, itemsize), offsetof(gs_desc, data),
      offsetof(gs_desc, storage_bytes), offsetof(gs_desc, version), offsetof(gs_desc, sizes), offsetof(gs_desc, strides)};
  return i < sizeof all / sizeof *all ? all[i] : 0;
}
*/
import "C"

import "unsafe"

// layout lists sizes and offsets of the structs that both sides use: Go's, then C's.
func layout() (goSide, cSide []uintptr) {
	var f Frame
	var r Result
	var d Desc
	goSide = []uintptr{
		unsafe.Sizeof(f), unsafe.Sizeof(r), unsafe.Sizeof(d), unsafe.Sizeof(Failure{}),
		unsafe.Offsetof(f.Bytes), unsafe.Offsetof(f.Scope), unsafe.Offsetof(f.Slot), unsafe.Offsetof(f.flags),
		unsafe.Offsetof(f.Tag), unsafe.Offsetof(f.W), unsafe.Offsetof(f.Data),
		unsafe.Offsetof(r.Tag), unsafe.Offsetof(r.W), unsafe.Offsetof(r.Bytes), unsafe.Offsetof(r.Scope),
		unsafe.Offsetof(r.Slot), unsafe.Offsetof(r.msg),
		unsafe.Offsetof(d.Flags), unsafe.Offsetof(d.Numel), unsafe.Offsetof(d.Itemsize), unsafe.Offsetof(d.Data),
		unsafe.Offsetof(d.StorageBytes), unsafe.Offsetof(d.Version), unsafe.Offsetof(d.Sizes), unsafe.Offsetof(d.Strides),
	}
	cSide = []uintptr{C.sizeof_gs_frame, C.sizeof_gs_result, C.sizeof_gs_desc, C.sizeof_gs_error}
	for i := C.size_t(0); C.gs_offset(i) != 0; i++ {
		cSide = append(cSide, uintptr(C.gs_offset(i)))
	}
	return goSide, cSide
}

// constants lists the numbers that both sides use: Go's, then C's.
func constants() (goSide, cSide []int) {
	goSide = []int{
		ABI, MaxArgs, Inline, MaxResults, MaxDims, contended,
		None, Tensor, Int, Double, Bool, Str, Ints, Doubles, Bools, Tensors, Device, Generator, Default, Far,
		OK, Runtime, Index, Value, Type, NotImplemented, OutOfMemory, Linalg, Internal, BadCall, Handle,
		FlagRequiresGrad, FlagContiguous, FlagLeaf, FlagChannelsLast, FlagInference, FlagView,
		ModeGrad, ModeInference, ModeSteady,
		FlagTF32, FlagCuDNNBenchmark, FlagCuDNNDeterministic, FlagDeterministic, FlagAnomaly, FlagMatmulPrecision,
	}
	cSide = []int{
		C.GOSPML_TORCH_ABI, C.GS_MAX_ARGS, C.GS_INLINE, C.GS_MAX_RESULTS, C.GS_MAX_DIMS, C.GS_CONTENDED,
		C.GS_NONE, C.GS_TENSOR, C.GS_INT, C.GS_DOUBLE, C.GS_BOOL, C.GS_STR, C.GS_INTS, C.GS_DOUBLES, C.GS_BOOLS, C.GS_TENSORS, C.GS_DEVICE, C.GS_GENERATOR, C.GS_DEFAULT, C.GS_FAR,
		C.GS_OK, C.GS_ERR_RUNTIME, C.GS_ERR_INDEX, C.GS_ERR_VALUE, C.GS_ERR_TYPE, C.GS_ERR_NOT_IMPLEMENTED, C.GS_ERR_OUT_OF_MEMORY, C.GS_ERR_LINALG, C.GS_ERR_INTERNAL, C.GS_ERR_CALL, C.GS_ERR_HANDLE,
		C.GS_F_REQUIRES_GRAD, C.GS_F_CONTIGUOUS, C.GS_F_LEAF, C.GS_F_CHANNELS_LAST, C.GS_F_INFERENCE, C.GS_F_VIEW,
		C.GS_MODE_GRAD, C.GS_MODE_INFERENCE, C.GS_MODE_STEADY,
		C.GS_FLAG_TF32, C.GS_FLAG_CUDNN_BENCHMARK, C.GS_FLAG_CUDNN_DETERMINISTIC, C.GS_FLAG_DETERMINISTIC, C.GS_FLAG_ANOMALY, C.GS_FLAG_MATMUL_PRECISION,
	}
	return goSide, cSide
}
