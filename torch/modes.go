package torch

import (
	"runtime"

	"github.com/gospml/gospml/torch/internal/abi"
)

// NoGrad runs f with gradient recording off, on a locked OS thread; other goroutines are not affected, those that f
// starts included. The mode before is restored, also when f panics.
func NoGrad(f func()) { withGrad(false, f) }

// EnableGrad runs f with gradient recording on, for use inside NoGrad.
func EnableGrad(f func()) { withGrad(true, f) }

func withGrad(on bool, f func()) {
	mustLoad()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := abi.Enter(abi.ModeGrad, on)
	check("grad_mode", &r)
	defer abi.Leave(abi.ModeGrad, r.W[0])
	f()
}

// GradEnabled says whether autograd records on the calling OS thread.
func GradEnabled() bool {
	mustLoad()
	return abi.Mode(abi.ModeGrad)
}

// Inference runs f in PyTorch's inference mode: no recording, no version counters. Its results can never take part in
// autograd.
func Inference(f func()) {
	mustLoad()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := abi.Enter(abi.ModeInference, true)
	check("inference_mode", &r)
	defer abi.Leave(abi.ModeInference, r.W[0])
	f()
}

// Do runs a whole loop on one OS thread, so that libtorch sets up its worker threads and caches once. Inside Do, Scope,
// NoGrad and Inference each operation uses NumThreads threads, whatever other goroutines do; elsewhere an operation that
// runs beside others uses one, which may change the last bits of a sum.
func Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if abi.Load() == nil {
		r := abi.Enter(abi.ModeSteady, true)
		check("do", &r)
		defer abi.Leave(abi.ModeSteady, r.W[0])
	}
	return f()
}

// SetNumThreads sets how many threads one operation may use, for the process but for the workers of pools, which use one.
// Each OS thread follows at its next operation.
func SetNumThreads(n int) error {
	if err := Available(); err != nil {
		return err
	}
	if r := abi.SetNumThreads(n); r.Kind != abi.OK {
		return &Error{Kind: Kind(r.Kind), Op: "set_num_threads", Msg: r.Message()}
	}
	return nil
}

// NumThreads is how many threads one operation uses on the calling OS thread.
func NumThreads() int {
	mustLoad()
	return abi.NumThreads()
}
