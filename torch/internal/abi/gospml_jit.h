/* The C ABI of TorchScript: gospml_jit_api returns a table of functions. Rules, results and handles are those of
 * gospml_torch.h; a module is an integer that owns one reference.
 *
 * Values travel as text and a list of tensors. A value is one of: t (the next tensor), n (None), b0 or b1, i<decimal>;
 * , d<16 hexadecimal digits of the float64's bits>, s<length>:<bytes>, ( values ), [ values ], { key value … }. */
#ifndef GOSPML_JIT_H
#define GOSPML_JIT_H

#include "gospml_torch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GOSPML_JIT_ABI 2

typedef struct {
  uint32_t abi;
  uint32_t size;
  gs_result (*load)(const char* path, int device); /* device as GS_DEVICE; w: module */
  gs_result (*free)(uint64_t module);
  gs_result (*methods)(uint64_t module);           /* block with a schema a line */
  gs_result (*run)(uint64_t module, const char* method, const char* args, size_t n, const uint64_t* tensors,
                   size_t ntensors, uint32_t flags); /* GS_TENSORS, block */
  gs_result (*state)(
      uint64_t module); /* GS_TENSORS, block with a name a line; p before a parameter's, b before a buffer's */
  gs_result (*train)(uint64_t module, int on);
  gs_result (*to)(uint64_t module, int device, int dtype); /* device -1, dtype -1: as it is */
  /* Tracing: what the thread calls between trace_begin and trace_end on one input becomes the method forward of a
   * module that holds tensors. names has a line for each: p or b (parameter, buffer) and the dotted name. The w of
   * trace_begin is for trace_end, which frees it; output 0 gives up. */
  gs_result (*trace_begin)(const char* names, size_t n, const uint64_t* tensors, size_t ntensors,
                           uint64_t input); /* w: trace */
  gs_result (*trace_end)(uint64_t trace, uint64_t output); /* w: module, 0 after giving up */
  gs_result (*save)(uint64_t module, const char* files,
                    size_t n); /* files: { s s … }, names and contents; GS_TENSORS with the archive's bytes */
} gs_jit;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const gs_jit* gospml_jit_api(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
