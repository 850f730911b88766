// What the C++ files of the shim share: handles, guards, result building.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gospml_torch.h"

namespace gs {

using Impl = c10::TensorImpl;

// Thrown for calls that do not fit a schema.
struct CallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A borrowed handle as a tensor that owns a reference of its own.
inline at::Tensor tensor_of(uint64_t h) {
  if (!h) return at::Tensor();
  return at::Tensor(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim_copy(reinterpret_cast<Impl*>(h)));
}

// Gives a tensor to the caller: the handle owns the reference and is recorded in the thread's innermost scope.
// Adds the bytes of a storage that nobody else holds to r.bytes.
uint64_t give(at::Tensor&& t, gs_result& r);

void* text_block(const std::string& s); // length, bytes
char* message(const char* s);

void fail(gs_result& r, int kind, const char* text) noexcept;
void fail_current(gs_result& r) noexcept; // inside a catch block

template <class F>
gs_result guarded(F&& f) noexcept {
  gs_result r;
  memset(&r, 0, sizeof r);
  try {
    f(r);
  } catch (...) {
    fail_current(r);
  }
  return r;
}

inline void put(gs_result& r, uint8_t tag, uint64_t w) {
  if (r.n >= GS_MAX_RESULTS) throw CallError("more results than the frame holds");
  r.tag[r.n] = tag;
  r.w[r.n++] = w;
}

void put_tensors(gs_result& r, std::vector<at::Tensor>&& ts);

// Entries that the table lists, one file each.
gs_result op(const char*, const char*);
gs_result call(uint64_t, const gs_frame*, const uint64_t*);
gs_result schema(uint64_t);
gs_result overloads(const char*);
void free_block(void*);
uint64_t release(const uint64_t*, size_t);
gs_result retain(uint64_t);
gs_result describe(uint64_t, gs_desc*);
int64_t live();
void scope_begin(uint32_t);
uint64_t scope_end();
int64_t scope_keep(uint64_t);
int32_t scope_drop(uint64_t);
gs_result backward(const uint64_t*, size_t, const uint64_t*, const uint64_t*, size_t, int, int);
gs_result grad(const uint64_t*, size_t, const uint64_t*, size_t, const uint64_t*, int, int, int);
gs_result get_grads(const uint64_t*, size_t);
gs_result set_grad(uint64_t, uint64_t);
gs_result zero_grads(const uint64_t*, size_t, int);
gs_result set_requires_grad(uint64_t, int);
gs_result set_data(uint64_t, uint64_t);
int mode(int);
gs_result set_mode(int, int);
gs_result manual_seed(uint64_t);
gs_result generator(uint64_t);
void generator_free(uint64_t);
gs_result generator_seed(uint64_t, uint64_t);
gs_result generator_state(uint64_t);
gs_result generator_set_state(uint64_t, uint64_t);
at::Generator generator_of(uint64_t);
gs_result set_num_threads(int);
gs_result set_thread_threads(int);
int num_threads();
int parallel_threads();
int64_t heap_in_use();
const char* cpu_capability();
gs_result config();
gs_result load_ops(const char*);

} // namespace gs
