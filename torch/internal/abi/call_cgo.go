//go:build cgo

package abi

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include "gospml_torch.h"

#cgo noescape gs_call
#cgo nocallback gs_call
#cgo noescape gs_op
#cgo nocallback gs_op
#cgo noescape gs_describe
#cgo nocallback gs_describe
#cgo noescape gs_release
#cgo nocallback gs_release
#cgo nocallback gs_scope_begin
#cgo nocallback gs_scope_end
#cgo nocallback gs_scope_drop
#cgo nocallback gs_scope_keep
#cgo nocallback gs_mode
#cgo nocallback gs_enter
#cgo nocallback gs_leave
#cgo nocallback gs_retain
#cgo noescape gs_get_grads
#cgo nocallback gs_get_grads
#cgo noescape gs_replay
#cgo nocallback gs_replay
#cgo noescape gs_record_current
#cgo nocallback gs_record_current
#cgo noescape gs_zero_grads
#cgo nocallback gs_zero_grads

// Calls wander over OS threads. A malloc arena for each, glibc's habit, would keep the most that any of them ever held,
// so there is one for four cores. This works before the first thread starts only.
__attribute__((constructor)) static void few_arenas(void) {
#ifdef __GLIBC__
  long n = sysconf(_SC_NPROCESSORS_ONLN) / 4;
  if (!getenv("MALLOC_ARENA_MAX")) mallopt(M_ARENA_MAX, n > 1 ? (int)n : 1);
#endif
}

static const gs_api *api;

typedef const gs_api *(*api_fn)(uint32_t);
typedef uint64_t (*version_fn)(void);

static void *gs_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_GLOBAL); }
static const char *gs_dlerror(void) { return dlerror(); }
// 0 = fine, 1 = symbol absent, 2 = other ABI
static int gs_bind(void *lib, uint32_t abi) {
  api_fn f = (api_fn)dlsym(lib, "gospml_torch_api");
  if (!f) return 1;
  const gs_api *a = f(abi);
  if (!a || a->abi != abi || a->size < sizeof(gs_api)) return 2;
  api = a;
  return 0;
}
static uint64_t gs_torch_abi(void *lib) {
  version_fn f = (version_fn)dlsym(lib, "aoti_torch_abi_version");
  return f ? f() : 0;
}
static const char *gs_compiled(void) { return api->torch_version; }

static gs_result gs_op(const char *n, const char *o) { return api->op(n, o); }
static gs_error gs_call(uint64_t op, gs_frame *f, const uint64_t *far) { return api->call(op, f, far); }
static gs_result gs_schema(uint64_t op) { return api->schema(op); }
static gs_result gs_overloads(const char *n) { return api->overloads(n); }
static void gs_free_block(uint64_t p) { api->free_block((void *)p); }
static uint64_t gs_release(const uint64_t *h, size_t n) { return api->release(h, n); }
static gs_result gs_retain(uint64_t h) { return api->retain(h); }
static gs_result gs_describe(uint64_t h, gs_desc *d) { return api->describe(h, d); }
static int64_t gs_live(void) { return api->live(); }
static void gs_scope_begin(uint32_t id) { api->scope_begin(id); }
static void gs_scope_end(void) { api->scope_end(); }
static gs_result gs_scope_keep(uint32_t id, uint32_t slot, uint64_t h) { return api->scope_keep(id, slot, h); }
static int32_t gs_scope_drop(uint32_t id, uint32_t slot, uint64_t h) { return api->scope_drop(id, slot, h); }
static gs_result gs_backward(const uint64_t *r, size_t n, const uint64_t *g, const uint64_t *in, size_t nin, int retain, int create, uint32_t flags) { return api->backward(r, n, g, in, nin, retain, create, flags); }
static gs_result gs_grad(const uint64_t *o, size_t n, const uint64_t *in, size_t nin, const uint64_t *g, int retain, int create, int unused, uint32_t flags) { return api->grad(o, n, in, nin, g, retain, create, unused, flags); }
static gs_result gs_get_grads(const uint64_t *h, size_t n) { return api->get_grads(h, n); }
static gs_result gs_set_grad(uint64_t h, uint64_t g) { return api->set_grad(h, g); }
static gs_result gs_zero_grads(const uint64_t *h, size_t n, int none) { return api->zero_grads(h, n, none); }
static gs_result gs_set_requires_grad(uint64_t h, int on) { return api->set_requires_grad(h, on); }
static gs_result gs_set_data(uint64_t h, uint64_t s) { return api->set_data(h, s); }
static gs_result gs_grad_fn(uint64_t h) { return api->grad_fn(h); }
static int gs_mode(int which) { return api->mode(which); }
static gs_result gs_enter(int which, int on) { return api->enter(which, on); }
static gs_result gs_leave(int which, int before) { return api->leave(which, before); }
static gs_result gs_manual_seed(uint64_t s) { return api->manual_seed(s); }
static gs_result gs_generator(uint64_t s) { return api->generator(s); }
static void gs_generator_free(uint64_t g) { api->generator_free(g); }
static gs_result gs_generator_seed(uint64_t g, uint64_t s) { return api->generator_seed(g, s); }
static gs_result gs_generator_state(uint64_t g) { return api->generator_state(g); }
static gs_result gs_generator_set_state(uint64_t g, uint64_t s) { return api->generator_set_state(g, s); }
static gs_result gs_set_num_threads(int n) { return api->set_num_threads(n); }
static gs_result gs_set_thread_threads(int n) { return api->set_thread_threads(n); }
static int gs_num_threads(void) { return api->num_threads(); }
static int gs_parallel_threads(void) { return api->parallel_threads(); }
static int64_t gs_heap_in_use(void) { return api->heap_in_use(); }
static const char *gs_cpu_capability(void) { return api->cpu_capability(); }
static gs_result gs_config(void) { return api->config(); }
static gs_result gs_load_ops(const char *p) { return api->load_ops(p); }
static size_t gs_dead_functions(uint64_t *ids, size_t n) { return api->dead_functions(ids, n); }
static uint64_t gs_own(uint64_t h) { return api->own(h); }
static gs_result gs_node(uint64_t id, const uint64_t *in, size_t n, const uint64_t *out, size_t nout, const uint8_t *diff, const uint64_t *saved, size_t nsaved) { return api->node(id, in, n, out, nout, diff, saved, nsaved); }
static gs_result gs_hook(uint64_t h, uint64_t id) { return api->hook(h, id); }
static gs_result gs_unhook(uint64_t h, uint64_t at) { return api->unhook(h, at); }
static gs_result gs_accumulated(uint64_t h, uint64_t id) { return api->accumulated(h, id); }
static gs_result gs_autocast_enter(int d, int on, int dtype) { return api->autocast_enter(d, on, dtype); }
static gs_result gs_autocast_leave(int d, uint64_t before) { return api->autocast_leave(d, before); }
static gs_result gs_autocast_state(int d) { return api->autocast_state(d); }
static gs_result gs_set_flag(int which, int v) { return api->set_flag(which, v); }
static gs_result gs_get_flag(int which) { return api->get_flag(which); }
static gs_result gs_profile_begin(void) { return api->profile_begin(); }
static gs_result gs_profile_end(uint64_t h) { return api->profile_end(h); }
static gs_result gs_record_begin(uint64_t id, const uint64_t *in, size_t n) { return api->record_begin(id, in, n); }
static gs_result gs_record_end(const uint64_t *out, size_t n) { return api->record_end(out, n); }
static void gs_record_cancel(void) { api->record_cancel(); }
static void gs_record_fail(const char *why) { api->record_fail(why); }
static uint64_t gs_record_current(int64_t *at) { return api->record_current(at); }
static gs_result gs_record_plan(uint64_t h) { return api->record_plan(h); }
static gs_result gs_record_outputs(uint64_t h) { return api->record_outputs(h); }
static gs_result gs_record_set(uint64_t h, uint64_t c, uint32_t a, double v) { return api->record_set(h, c, a, v); }
static gs_result gs_replay(uint64_t h, const uint64_t *in, size_t n, uint32_t flags) { return api->replay(h, in, n, flags); }
static gs_result gs_record_text(uint64_t h) { return api->record_text(h); }
static void gs_record_free(uint64_t h) { api->record_free(h); }
static void gs_set_go_function(gs_go_function f) { if (api->set_go_function) api->set_go_function(f); }
*/
import "C"

import (
	"runtime"
	"unsafe"
)

func result(r C.gs_result) Result { return *(*Result)(unsafe.Pointer(&r)) }

func words(s []uint64) *C.uint64_t { return (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Op looks up an operator; the handle is in W[0] and stays valid.
func Op(name, overload string) Result {
	n, o := C.CString(name), C.CString(overload)
	r := result(C.gs_op(n, o))
	C.free(unsafe.Pointer(n))
	C.free(unsafe.Pointer(o))
	return r
}

// Call runs an operator. far holds the lists whose tag has the Far bit.
func Call(op uint64, f *Frame, far []uint64) Failure {
	f.flags = slots.acquire()
	e := C.gs_call(C.uint64_t(op), (*C.gs_frame)(unsafe.Pointer(f)), words(far))
	slots.release()
	return Failure{int64(e.kind), uintptr(unsafe.Pointer(e.msg))}
}

// Schema returns the operator's schema as text in W[0] (Text).
func Schema(op uint64) Result { return result(C.gs_schema(C.uint64_t(op))) }

// Overloads lists the overload names of an operator, one a line, in W[0] (Text).
func Overloads(name string) Result {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return result(C.gs_overloads(n))
}

// Text reads and frees a GS_STR result.
func Text(w uint64) string {
	p := blockPointer(w)
	n := *(*uint64)(p)
	s := C.GoStringN((*C.char)(unsafe.Add(p, 8)), C.int(n))
	C.gs_free_block(C.uint64_t(w))
	return s
}

// Handles reads and frees a GS_TENSORS result.
func Handles(w uint64) []uint64 {
	p := blockPointer(w)
	n := *(*uint64)(p)
	out := make([]uint64, n)
	copy(out, unsafe.Slice((*uint64)(unsafe.Add(p, 8)), n))
	C.gs_free_block(C.uint64_t(w))
	return out
}

// blockPointer turns an address that C handed out as an integer into a pointer; the memory is malloc's, not Go's.
func blockPointer(w uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&w)) }

// Message reads and frees the error text.
func (r *Result) Message() string { return takeText(&r.msg) }

// Message reads and frees the error text.
func (f *Failure) Message() string { return takeText(&f.msg) }

func takeText(msg *uintptr) string {
	if *msg == 0 {
		return ""
	}
	s := C.GoString((*C.char)(blockPointer(uint64(*msg))))
	C.gs_free_block(C.uint64_t(*msg))
	*msg = 0
	return s
}

// Memory returns the bytes at an address of a CPU tensor's storage.
func Memory(addr uint64, n int) []byte {
	if n == 0 || addr == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(blockPointer(addr)), n)
}

// Release gives references back and returns the bytes of storage that ended with them.
func Release(h []uint64) uint64 {
	if len(h) == 0 {
		return 0
	}
	return uint64(C.gs_release(words(h), C.size_t(len(h))))
}

// Retain makes another handle of the same tensor.
func Retain(h uint64) Result { return result(C.gs_retain(C.uint64_t(h))) }

// Describe fills d.
func Describe(h uint64, d *Desc) Result {
	return result(C.gs_describe(C.uint64_t(h), (*C.gs_desc)(unsafe.Pointer(d))))
}

// Live counts the handles that exist.
func Live() int64 { return int64(C.gs_live()) }

// ScopeBegin opens a scope on this OS thread.
func ScopeBegin(id uint32) { C.gs_scope_begin(C.uint32_t(id)) }

// ScopeEnd frees the innermost scope of this OS thread.
func ScopeEnd() { C.gs_scope_end() }

// ScopeKeep moves a handle to the next outer scope, which the result names with the new place there; N = 0 when no open
// scope of this thread holds it.
func ScopeKeep(id, slot uint32, h uint64) Result {
	return result(C.gs_scope_keep(C.uint32_t(id), C.uint32_t(slot), C.uint64_t(h)))
}

// ScopeDrop frees a handle early; false when no open scope of this thread holds it.
func ScopeDrop(id, slot uint32, h uint64) bool {
	return C.gs_scope_drop(C.uint32_t(id), C.uint32_t(slot), C.uint64_t(h)) != 0
}

// Backward runs the engine from roots; grads is nil or as long as roots, inputs may be empty.
func Backward(roots, grads, inputs []uint64, retain, create bool) Result {
	flags := slots.acquire()
	r := C.gs_backward(words(roots), C.size_t(len(roots)), words(grads), words(inputs), C.size_t(len(inputs)), flag(retain), flag(create), C.uint32_t(flags))
	slots.release()
	return result(r)
}

// Grad returns the gradients of outputs with respect to inputs as Tensors.
func Grad(outputs, inputs, gradOutputs []uint64, retain, create, allowUnused bool) Result {
	flags := slots.acquire()
	r := C.gs_grad(words(outputs), C.size_t(len(outputs)), words(inputs), C.size_t(len(inputs)), words(gradOutputs), flag(retain), flag(create), flag(allowUnused), C.uint32_t(flags))
	slots.release()
	return result(r)
}

// GetGrads returns the .grad of each tensor, 0 where there is none.
func GetGrads(h []uint64) Result { return result(C.gs_get_grads(words(h), C.size_t(len(h)))) }

// SetGrad sets .grad; g = 0 clears it.
func SetGrad(h, g uint64) Result { return result(C.gs_set_grad(C.uint64_t(h), C.uint64_t(g))) }

// ZeroGrads clears .grad of each tensor or fills it with zeros.
func ZeroGrads(h []uint64, setToNone bool) Result {
	return result(C.gs_zero_grads(words(h), C.size_t(len(h)), flag(setToNone)))
}

// SetRequiresGrad sets the flag of a leaf.
func SetRequiresGrad(h uint64, on bool) Result {
	return result(C.gs_set_requires_grad(C.uint64_t(h), flag(on)))
}

// SetData replaces the storage that a tensor shows.
func SetData(h, source uint64) Result {
	return result(C.gs_set_data(C.uint64_t(h), C.uint64_t(source)))
}

// GradFn is the name of the function that computed a tensor, in W[0] (Text); N = 0 for a leaf.
func GradFn(h uint64) Result { return result(C.gs_grad_fn(C.uint64_t(h))) }

// Mode reads a thread-local mode.
func Mode(which int) bool { return C.gs_mode(C.int(which)) == 1 }

// Enter sets a thread-local mode; W[0] is what Leave wants.
func Enter(which int, on bool) Result { return result(C.gs_enter(C.int(which), flag(on))) }

// Leave undoes the innermost Enter of this thread.
func Leave(which int, before uint64) { C.gs_leave(C.int(which), C.int(before)) }

// ManualSeed seeds the default generators of every device.
func ManualSeed(seed uint64) Result { return result(C.gs_manual_seed(C.uint64_t(seed))) }

// NewGenerator makes a CPU generator, in W[0].
func NewGenerator(seed uint64) Result { return result(C.gs_generator(C.uint64_t(seed))) }

// FreeGenerator gives a generator back.
func FreeGenerator(g uint64) { C.gs_generator_free(C.uint64_t(g)) }

// SeedGenerator seeds a generator (0 = the default one).
func SeedGenerator(g, seed uint64) Result {
	return result(C.gs_generator_seed(C.uint64_t(g), C.uint64_t(seed)))
}

// GeneratorState returns the state as a uint8 tensor.
func GeneratorState(g uint64) Result { return result(C.gs_generator_state(C.uint64_t(g))) }

// SetGeneratorState restores a state.
func SetGeneratorState(g, state uint64) Result {
	return result(C.gs_generator_set_state(C.uint64_t(g), C.uint64_t(state)))
}

// SetNumThreads sets libtorch's intra-op threads for the process.
func SetNumThreads(n int) Result { return result(C.gs_set_num_threads(C.int(n))) }

// SetThreadThreads sets the intra-op threads of this OS thread.
func SetThreadThreads(n int) Result { return result(C.gs_set_thread_threads(C.int(n))) }

// NumThreads reads the intra-op threads of this OS thread.
func NumThreads() int { return int(C.gs_num_threads()) }

// ParallelThreads counts the threads that a parallel loop really used.
func ParallelThreads() int { return int(C.gs_parallel_threads()) }

// HeapInUse is what malloc has handed out, in bytes.
func HeapInUse() int64 { return int64(C.gs_heap_in_use()) }

// TrimHeap gives free memory of malloc's back to the system.
func TrimHeap() { C.malloc_trim(0) }

// CPUCapability is the instruction set libtorch chose.
func CPUCapability() string { return C.GoString(C.gs_cpu_capability()) }

// Config is libtorch's build description as text in W[0].
func Config() Result { return result(C.gs_config()) }

// LoadOps opens a library that registers operators.
func LoadOps(path string) Result {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	return result(C.gs_load_ops(p))
}

// DeadFunctions hands out ids of Go functions that no graph uses any more.
func DeadFunctions(ids []uint64) int {
	return int(C.gs_dead_functions(words(ids), C.size_t(len(ids))))
}

// Own makes one more reference of a tensor, for the results of a Go function.
func Own(h uint64) uint64 { return uint64(C.gs_own(C.uint64_t(h))) }

// Node makes the function id the history of outputs; the result holds them anew, N = 0 when nothing requires a
// gradient.
func Node(id uint64, inputs, outputs []uint64, differentiable []uint8, saved []uint64) Result {
	return result(C.gs_node(C.uint64_t(id), words(inputs), C.size_t(len(inputs)), words(outputs), C.size_t(len(outputs)),
		(*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(differentiable))), words(saved), C.size_t(len(saved))))
}

// Hook calls the function id with each gradient of a tensor; W[0] is what Unhook wants.
func Hook(h, id uint64) Result { return result(C.gs_hook(C.uint64_t(h), C.uint64_t(id))) }

// Unhook takes a hook off.
func Unhook(h, at uint64) Result { return result(C.gs_unhook(C.uint64_t(h), C.uint64_t(at))) }

// Accumulated calls the function id with a leaf whenever backward has changed its gradient; 0 takes the function off.
func Accumulated(h, id uint64) Result { return result(C.gs_accumulated(C.uint64_t(h), C.uint64_t(id))) }

// AutocastEnter sets autocast on this OS thread; W[0] is what AutocastLeave wants.
func AutocastEnter(device int, on bool, dtype int) Result {
	return result(C.gs_autocast_enter(C.int(device), flag(on), C.int(dtype)))
}

// AutocastLeave undoes the innermost AutocastEnter of this thread.
func AutocastLeave(device int, before uint64) {
	C.gs_autocast_leave(C.int(device), C.uint64_t(before))
}

// AutocastState is whether autocast is on for a device, in W[0], and its dtype, in W[1].
func AutocastState(device int) Result { return result(C.gs_autocast_state(C.int(device))) }

// SetFlag sets a switch of the process.
func SetFlag(which, value int) Result { return result(C.gs_set_flag(C.int(which), C.int(value))) }

// GetFlag reads a switch into W[0].
func GetFlag(which int) Result { return result(C.gs_get_flag(C.int(which))) }

// ProfileBegin starts a profile of the process; W[0] is what ProfileEnd wants.
func ProfileBegin() Result { return result(C.gs_profile_begin()) }

// ProfileEnd is the profile as text in W[0].
func ProfileEnd(h uint64) Result { return result(C.gs_profile_end(C.uint64_t(h))) }

// RecordBegin starts to record what this OS thread calls; the result holds what the step reads instead of inputs.
func RecordBegin(id uint64, inputs []uint64) Result {
	return result(C.gs_record_begin(C.uint64_t(id), words(inputs), C.size_t(len(inputs))))
}

// RecordEnd stops; W[0] is the recording.
func RecordEnd(outputs []uint64) Result {
	return result(C.gs_record_end(words(outputs), C.size_t(len(outputs))))
}

// RecordCancel stops and forgets.
func RecordCancel() { C.gs_record_cancel() }

// RecordFail makes RecordEnd fail with these words.
func RecordFail(why string) {
	p := C.CString(why)
	defer C.free(unsafe.Pointer(p))
	C.gs_record_fail(p)
}

// RecordCurrent is the id of the recording under way on this OS thread, 0 where there is none, and the number of its
// calls so far.
func RecordCurrent() (id uint64, calls int64) {
	id = uint64(C.gs_record_current((*C.int64_t)(unsafe.Pointer(&calls))))
	return id, calls
}

// RecordPlan makes a recording ready, after the handles of its step are released.
func RecordPlan(h uint64) Result { return result(C.gs_record_plan(C.uint64_t(h))) }

// RecordOutputs returns the step's outputs.
func RecordOutputs(h uint64) Result { return result(C.gs_record_outputs(C.uint64_t(h))) }

// RecordSet changes a number among the arguments of a call.
func RecordSet(h, call uint64, argument int, v float64) Result {
	return result(C.gs_record_set(C.uint64_t(h), C.uint64_t(call), C.uint32_t(argument), C.double(v)))
}

// Replay runs a recording: W[0] is 0, 1 where the inputs have another form, 2 where what the step refers to has
// changed.
func Replay(h uint64, inputs []uint64) Result {
	flags := slots.acquire()
	r := C.gs_replay(C.uint64_t(h), words(inputs), C.size_t(len(inputs)), C.uint32_t(flags))
	slots.release()
	return result(r)
}

// RecordText is the number of planned bytes and the calls of a recording, one a line, in W[0].
func RecordText(h uint64) Result { return result(C.gs_record_text(C.uint64_t(h))) }

// RecordFree frees a recording.
func RecordFree(h uint64) { C.gs_record_free(C.uint64_t(h)) }

func open(path string) (unsafe.Pointer, string) {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	// dlerror is thread-local: both calls must run on one OS thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lib := C.gs_open(p)
	if lib == nil {
		return nil, C.GoString(C.gs_dlerror())
	}
	return lib, ""
}

func torchABI(lib unsafe.Pointer) uint64 { return uint64(C.gs_torch_abi(lib)) }

func bind(lib unsafe.Pointer, abi uint32) int { return int(C.gs_bind(lib, C.uint32_t(abi))) }

func setGoFunction() { C.gs_set_go_function((C.gs_go_function)(goFunctionPointer())) }

func compiledFor() string { return C.GoString(C.gs_compiled()) }
