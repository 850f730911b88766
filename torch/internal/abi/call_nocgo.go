//go:build !cgo

package abi

// Library is the file that holds the C ABI.
const Library = "libgospml-cpu.so"

// Loaded says which files Load opened; it stays empty without cgo.
var Loaded struct{ Torch, TorchSource, Library string }

var errNoCgo = &LoadError{"this program was built with CGO_ENABLED=0 and cannot call libtorch; build it with CGO_ENABLED=1 and a C compiler"}

// Load says that libtorch cannot be called.
func Load() error { return errNoCgo }

// The functions below are never reached: every caller asks Load first. They keep packages buildable without cgo.

func refuse() Result { panic(errNoCgo) }

func Op(name, overload string) Result                                    { return refuse() }
func Call(op uint64, f *Frame, far []uint64) Failure                     { panic(errNoCgo) }
func Schema(op uint64) Result                                            { return refuse() }
func Overloads(name string) Result                                       { return refuse() }
func Text(w uint64) string                                               { panic(errNoCgo) }
func Handles(w uint64) []uint64                                          { panic(errNoCgo) }
func (r *Result) Message() string                                        { return errNoCgo.Reason }
func (f *Failure) Message() string                                       { return errNoCgo.Reason }
func Memory(addr uint64, n int) []byte                                   { panic(errNoCgo) }
func Release(h []uint64) uint64                                          { return 0 }
func Retain(h uint64) Result                                             { return refuse() }
func Describe(h uint64, d *Desc) Result                                  { return refuse() }
func Live() int64                                                        { return 0 }
func ScopeBegin(id uint32)                                               {}
func ScopeEnd()                                                          {}
func ScopeKeep(id, slot uint32, h uint64) Result                         { return refuse() }
func ScopeDrop(id, slot uint32, h uint64) bool                           { return false }
func GetGrads(h []uint64) Result                                         { return refuse() }
func SetGrad(h, g uint64) Result                                         { return refuse() }
func ZeroGrads(h []uint64, setToNone bool) Result                        { return refuse() }
func SetRequiresGrad(h uint64, on bool) Result                           { return refuse() }
func SetData(h, source uint64) Result                                    { return refuse() }
func GradFn(h uint64) Result                                             { return refuse() }
func Mode(which int) bool                                                { return false }
func Enter(which int, on bool) Result                                    { return refuse() }
func Leave(which int, before uint64)                                     {}
func ManualSeed(seed uint64) Result                                      { return refuse() }
func NewGenerator(seed uint64) Result                                    { return refuse() }
func FreeGenerator(g uint64)                                             {}
func SeedGenerator(g, seed uint64) Result                                { return refuse() }
func GeneratorState(g uint64) Result                                     { return refuse() }
func SetGeneratorState(g, state uint64) Result                           { return refuse() }
func SetNumThreads(n int) Result                                         { return refuse() }
func SetThreadThreads(n int) Result                                      { return refuse() }
func NumThreads() int                                                    { return 0 }
func ParallelThreads() int                                               { return 0 }
func TrimHeap()                                                          {}
func HeapInUse() int64                                                   { return 0 }
func CPUCapability() string                                              { return "" }
func Config() Result                                                     { return refuse() }
func LoadOps(path string) Result                                         { return refuse() }
func Backward(roots, grads, inputs []uint64, retain, create bool) Result { return refuse() }
func Grad(outputs, inputs, gradOutputs []uint64, retain, create, allowUnused bool) Result {
	return refuse()
}

func DeadFunctions(ids []uint64) int                           { return 0 }
func Own(h uint64) uint64                                      { return 0 }
func Hook(h, id uint64) Result                                 { return refuse() }
func Unhook(h, at uint64) Result                               { return refuse() }
func Accumulated(h, id uint64) Result                          { return refuse() }
func AutocastEnter(device int, on bool, dt int) Result         { return refuse() }
func AutocastLeave(device int, before uint64)                  {}
func AutocastState(device int) Result                          { return refuse() }
func SetFlag(which, value int) Result                          { return refuse() }
func GetFlag(which int) Result                                 { return refuse() }
func ProfileBegin() Result                                     { return refuse() }
func ProfileEnd(h uint64) Result                               { return refuse() }
func RecordBegin(id uint64, inputs []uint64) Result            { return refuse() }
func RecordEnd(outputs []uint64) Result                        { return refuse() }
func RecordCancel()                                            {}
func RecordFail(why string)                                    {}
func RecordCurrent() (uint64, int64)                           { return 0, 0 }
func RecordPlan(h uint64) Result                               { return refuse() }
func RecordOutputs(h uint64) Result                            { return refuse() }
func RecordSet(h, call uint64, argument int, v float64) Result { return refuse() }
func Replay(h uint64, inputs []uint64) Result                  { return refuse() }
func RecordText(h uint64) Result                               { return refuse() }
func RecordFree(h uint64)                                      {}
func Node(id uint64, inputs, outputs []uint64, differentiable []uint8, saved []uint64) Result {
	return refuse()
}

// GoFunction runs a function that a graph calls; nothing calls it here.
var GoFunction func(id uint64, args *Result, out []uint64) (kind int, msg string)
