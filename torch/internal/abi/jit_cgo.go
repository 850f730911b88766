//go:build cgo

package abi

/*
#include <dlfcn.h>
#include <stdlib.h>
#include "gospml_jit.h"

static const gs_jit *jit;

typedef const gs_jit *(*jit_fn)(uint32_t);

// 0 = fine, 1 = symbol absent, 2 = other ABI
static int gs_bind_jit(void *lib) {
  jit_fn f = (jit_fn)dlsym(lib, "gospml_jit_api");
  if (!f) return 1;
  const gs_jit *j = f(GOSPML_JIT_ABI);
  if (!j || j->size < sizeof(gs_jit)) return 2;
  jit = j;
  return 0;
}

static gs_result gs_jit_load(const char *path, int device) { return jit->load(path, device); }
static gs_result gs_jit_free(uint64_t m) { return jit->free(m); }
static gs_result gs_jit_methods(uint64_t m) { return jit->methods(m); }
static gs_result gs_jit_run(uint64_t m, const char *name, const void *args, size_t n, const uint64_t *t, size_t nt, uint32_t flags) { return jit->run(m, name, (const char *)args, n, t, nt, flags); }
static gs_result gs_jit_state(uint64_t m) { return jit->state(m); }
static gs_result gs_jit_train(uint64_t m, int on) { return jit->train(m, on); }
static gs_result gs_jit_to(uint64_t m, int device, int dtype) { return jit->to(m, device, dtype); }
static gs_result gs_jit_trace_begin(const void *names, size_t n, const uint64_t *t, size_t nt, uint64_t x) { return jit->trace_begin((const char *)names, n, t, nt, x); }
static gs_result gs_jit_trace_end(uint64_t trace, uint64_t y) { return jit->trace_end(trace, y); }
static gs_result gs_jit_save(uint64_t m, const void *files, size_t n) { return jit->save(m, (const char *)files, n); }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/gospml/gospml/third_party/native"
)

var loadJit = sync.OnceValue(func() error {
	if err := Load(); err != nil {
		return err
	}
	if C.gs_bind_jit(coreLibrary) != 0 {
		return &LoadError{fmt.Sprintf("%s has not the entries for TorchScript; run `%s`", Loaded.Library, native.SetupCommand)}
	}
	return nil
})

// LoadJit is Load for the functions of TorchScript, which must not be called before it.
func LoadJit() error { return loadJit() }

// JitLoad reads a module; W[0] is its handle.
func JitLoad(path string, device int32) Result {
	return withString(path, func(p *C.char) C.gs_result { return C.gs_jit_load(p, C.int(device)) })
}

// JitFree gives a module back.
func JitFree(module uint64) Result { return result(C.gs_jit_free(C.uint64_t(module))) }

// JitMethods lists the methods' schemas, one a line, as text in W[0].
func JitMethods(module uint64) Result { return result(C.gs_jit_methods(C.uint64_t(module))) }

// JitRun calls a method; W[0] are the tensors of the result, W[1] is its text.
func JitRun(module uint64, method string, args []byte, tensors []uint64) Result {
	flags := slots.acquire()
	defer slots.release()
	return withString(method, func(m *C.char) C.gs_result {
		return C.gs_jit_run(C.uint64_t(module), m, unsafe.Pointer(unsafe.SliceData(args)), C.size_t(len(args)), words(tensors), C.size_t(len(tensors)), C.uint32_t(flags))
	})
}

// JitState returns parameters and buffers in W[0] and their names, one a line, as text in W[1].
func JitState(module uint64) Result { return result(C.gs_jit_state(C.uint64_t(module))) }

// JitTrain chooses training or evaluation mode.
func JitTrain(module uint64, on bool) Result {
	return result(C.gs_jit_train(C.uint64_t(module), flag(on)))
}

// JitTraceBegin starts a trace on the calling thread, which must be locked until JitTraceEnd; W[0] is the trace.
func JitTraceBegin(names []byte, tensors []uint64, input uint64) Result {
	return result(C.gs_jit_trace_begin(unsafe.Pointer(unsafe.SliceData(names)), C.size_t(len(names)), words(tensors), C.size_t(len(tensors)), C.uint64_t(input)))
}

// JitTraceEnd makes a module of a trace, W[0]; output 0 gives up.
func JitTraceEnd(trace, output uint64) Result {
	return result(C.gs_jit_trace_end(C.uint64_t(trace), C.uint64_t(output)))
}

// JitSave gives the bytes of an archive as a tensor in W[0].
func JitSave(module uint64, files []byte) Result {
	return result(C.gs_jit_save(C.uint64_t(module), unsafe.Pointer(unsafe.SliceData(files)), C.size_t(len(files))))
}

// JitTo moves a module to a device and a type; -1 leaves either as it is.
func JitTo(module uint64, device, dtype int32) Result {
	return result(C.gs_jit_to(C.uint64_t(module), C.int(device), C.int(dtype)))
}
