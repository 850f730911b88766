package torch

import "github.com/gospml/gospml/torch/internal/abi"

// CPUCapability is the instruction set that libtorch's kernels use: "DEFAULT", "AVX2" or "AVX512".
func CPUCapability() string {
	mustLoad()
	return abi.CPUCapability()
}

// BuildInfo is libtorch's own description of how it was built and of its threads.
func BuildInfo() string {
	mustLoad()
	r := abi.Config()
	check("show_config", &r)
	return abi.Text(r.W[0])
}

// TrimHeap gives memory that freed tensors leave behind back to the system. It is kept for the next step otherwise, because page faults on every large temporary
// cost time; call it after work that is not repeated, such as loading.
func TrimHeap() {
	if Available() == nil {
		abi.TrimHeap()
	}
}

// HeapInUse is what the C allocator has handed out, in bytes; tensors on the CPU are most of it.
func HeapInUse() int64 {
	mustLoad()
	return abi.HeapInUse()
}
