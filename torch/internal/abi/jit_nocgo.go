//go:build !cgo

package abi

// LoadJit says that libtorch cannot be called.
func LoadJit() error { return errNoCgo }

func JitLoad(path string, device int32) Result        { return refuse() }
func JitFree(module uint64) Result                    { return refuse() }
func JitMethods(module uint64) Result                 { return refuse() }
func JitState(module uint64) Result                   { return refuse() }
func JitTrain(module uint64, on bool) Result          { return refuse() }
func JitTo(module uint64, device, dtype int32) Result { return refuse() }
func JitTraceEnd(trace, output uint64) Result         { return refuse() }
func JitSave(module uint64, files []byte) Result      { return refuse() }
func JitTraceBegin(names []byte, tensors []uint64, input uint64) Result {
	return refuse()
}
func JitRun(module uint64, method string, args []byte, tensors []uint64) Result {
	return refuse()
}
