//go:build cgo

package abi

/*
#include <string.h>
#include "gospml_torch.h"

int32_t gospmlGoFunction(uint64_t id, gs_result *args, uint64_t *out, size_t nout, char **msg);

static inline void *gs_go_function_pointer(void) { return (void *)gospmlGoFunction; }
*/
import "C"

import "unsafe"

// GoFunction runs a function that a graph calls: args holds its tensors, results go to out as references of their own (Own).
// It returns the kind of an error and its text, and never panics. Package torch sets it.
var GoFunction func(id uint64, args *Result, out []uint64) (kind int, msg string)

func goFunctionPointer() unsafe.Pointer { return C.gs_go_function_pointer() }

// gospmlGoFunction is entered from backward on the OS thread of its caller, or on a thread of libtorch's. The slot that backward
// holds is free while Go code runs, which takes one for each call of its own.
//
//export gospmlGoFunction
func gospmlGoFunction(id C.uint64_t, args *C.gs_result, out *C.uint64_t, nout C.size_t, msg **C.char) C.int32_t {
	slots.release()
	defer slots.acquire()
	r := result(*args)
	kind, text := GoFunction(uint64(id), &r, unsafe.Slice((*uint64)(unsafe.Pointer(out)), int(nout)))
	if kind != OK {
		*msg = C.CString(text)
	}
	return C.int32_t(kind)
}
