package torch

import (
	"os"
	"runtime"

	"github.com/gospml/gospml/torch/internal/abi"
)

// Autocast runs f with autocast on for one type of device: matrix products, convolutions and attention run in d
// (BFloat16 or Float16), operations that need the range run in Float32, the rest in what they get (torch.autocast).
// Weights are cast once within the outermost Autocast. It holds for the calling goroutine, not for those that f starts.
// Run Backward outside.
func Autocast(device DeviceType, d DType, f func()) { autocast(device, true, d, f) }

// WithoutAutocast runs f with autocast off for one type of device, inside Autocast.
func WithoutAutocast(device DeviceType, f func()) { autocast(device, false, BFloat16, f) }

func autocast(device DeviceType, on bool, d DType, f func()) {
	mustLoad()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := abi.AutocastEnter(int(device), on, int(d))
	check("autocast", &r)
	defer abi.AutocastLeave(int(device), r.W[0])
	f()
}

// AutocastEnabled says whether autocast is on for a type of device on the calling OS thread, and in which type it runs.
func AutocastEnabled(device DeviceType) (on bool, d DType) {
	mustLoad()
	r := abi.AutocastState(int(device))
	check("autocast", &r)
	return r.W[0] != 0, DType(r.W[1])
}

// autocastState is what a second run of a function needs to be like the first.
type autocastState struct {
	device DeviceType
	on     bool
	d      DType
}

func autocastNow() []autocastState {
	var s []autocastState
	for _, device := range []DeviceType{DeviceCPU, DeviceCUDA} {
		on, d := AutocastEnabled(device)
		s = append(s, autocastState{device, on, d})
	}
	return s
}

func withAutocast(s []autocastState, f func()) {
	if len(s) == 0 {
		f()
		return
	}
	inner := func() { withAutocast(s[1:], f) }
	if on, d := AutocastEnabled(s[0].device); on == s[0].on && d == s[0].d {
		inner()
	} else {
		autocast(s[0].device, s[0].on, s[0].d, inner)
	}
}

func setFlag(which, value int) {
	mustLoad()
	r := abi.SetFlag(which, value)
	check("set_flag", &r)
}

func getFlag(which int) int {
	mustLoad()
	r := abi.GetFlag(which)
	check("get_flag", &r)
	return int(r.W[0])
}

func number(on bool) int {
	if on {
		return 1
	}
	return 0
}

// SetAllowTF32 lets float32 matrix products and convolutions on CUDA use TensorFloat-32 (10 bits of mantissa).
func SetAllowTF32(on bool) { setFlag(abi.FlagTF32, number(on)) }

// AllowTF32 says whether both may.
func AllowTF32() bool { return getFlag(abi.FlagTF32) != 0 }

// SetCuDNNBenchmark lets cuDNN try its algorithms on the first input of each shape and keep the fastest.
func SetCuDNNBenchmark(on bool) { setFlag(abi.FlagCuDNNBenchmark, number(on)) }

// CuDNNBenchmark says whether cuDNN tries its algorithms.
func CuDNNBenchmark() bool { return getFlag(abi.FlagCuDNNBenchmark) != 0 }

// SetCuDNNDeterministic restricts cuDNN to deterministic algorithms.
func SetCuDNNDeterministic(on bool) { setFlag(abi.FlagCuDNNDeterministic, number(on)) }

// CuDNNDeterministic says whether cuDNN is restricted to deterministic algorithms.
func CuDNNDeterministic() bool { return getFlag(abi.FlagCuDNNDeterministic) != 0 }

// SetDeterministic makes operators that have no deterministic form for their device panic, and the others use theirs
// (torch.use_deterministic_algorithms). It also fills the memory of Empty. On a card, matrix products are among them
// unless cuBLAS has a fixed workspace: where CUBLAS_WORKSPACE_CONFIG is not set, it is set to :4096:8 for this process,
// which counts where no product has run on the card yet.
func SetDeterministic(on bool) {
	const workspace = "CUBLAS_WORKSPACE_CONFIG"
	if on && os.Getenv(workspace) == "" {
		os.Setenv(workspace, ":4096:8")
	}
	setFlag(abi.FlagDeterministic, number(on))
}

// Deterministic says whether only deterministic operators may run.
func Deterministic() bool { return getFlag(abi.FlagDeterministic) != 0 }

// SetFloat32MatmulPrecision sets how float32 matrix products may be computed: "highest" (float32), "high"
// (TensorFloat-32 or three bfloat16 products), "medium" (bfloat16).
func SetFloat32MatmulPrecision(p string) {
	for i, name := range []string{"highest", "high", "medium"} {
		if name == p {
			setFlag(abi.FlagMatmulPrecision, i)
			return
		}
	}
	panic(&Error{Kind: KindValue, Op: "set_float32_matmul_precision", Msg: "want highest, high or medium, not " + p})
}

// Float32MatmulPrecision is "highest", "high" or "medium".
func Float32MatmulPrecision() string {
	return []string{"highest", "high", "medium"}[getFlag(abi.FlagMatmulPrecision)]
}
