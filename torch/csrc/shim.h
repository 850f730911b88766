// What the C++ files of the shim share: handles, guards, result building, the state of a thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gospml_torch.h"

namespace gs {

using Impl = c10::TensorImpl;

// Thrown for calls that do not fit a schema.
struct CallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown for a nil tensor where the operator needs one.
struct HandleError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A borrowed handle as a tensor that owns a reference of its own.
inline at::Tensor tensor_of(uint64_t h) {
  if (!h) return at::Tensor();
  return at::Tensor(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim_copy(reinterpret_cast<Impl*>(h)));
}

inline std::vector<at::Tensor> list(const uint64_t* h, size_t n) {
  std::vector<at::Tensor> v;
  v.reserve(n);
  for (size_t i = 0; i < n; i++) v.push_back(tensor_of(h[i]));
  return v;
}

struct Scope {
  uint32_t id = 0;
  std::vector<Impl*> held; // nullptr: kept or freed early
};

// What an OS thread has of ours.
struct Thread {
  std::vector<Scope> scopes; // the first `depth` are open; the others lend their memory to the next
  size_t depth = 0;
  torch::jit::Stack stack; // reused by calls, unless one is inside another
  bool stack_busy = false;
  std::vector<std::unique_ptr<c10::InferenceMode>> inference;
  int steady = 0;      // modes entered
  int calling = 0;     // operator calls that run on this thread: below them Go must not be called
  int fixed_team = 0;  // intra-op threads of this thread, 0 = the process's
  int team = 0;        // intra-op threads last set, 0 = never
};

// An error of Go code that a graph called.
struct GoError : std::runtime_error {
  int kind;
  GoError(int kind, const char* text) : std::runtime_error(text), kind(kind) {}
};

// The one thread-local word: a plain pointer costs no initialisation check.
extern constinit thread_local Thread* this_thread;
Thread& make_thread();
inline Thread& thread() { return this_thread ? *this_thread : make_thread(); }

// Sets the intra-op threads that the next operation on this thread may use.
void set_team(Thread& t, uint32_t flags);

void* text_block(const std::string& s); // length, bytes
char* message(const char* s);

void fail_current(gs_result& r) noexcept; // inside a catch block

// Adds a tensor to a result: the handle owns the reference and is recorded in the thread's innermost scope. Outside any
// scope the bytes of a storage that nobody else holds are added to r.bytes.
void put_tensor(gs_result& r, at::Tensor&& t);
void put_tensors(gs_result& r, std::vector<at::Tensor>&& ts);
inline void put(gs_result& r, uint8_t tag, uint64_t w) {
  if (r.n >= GS_MAX_RESULTS) throw CallError("more results than the frame holds");
  r.tag[r.n] = tag;
  r.w[r.n++] = w;
}
inline void clear(gs_result& r) {
  r.kind = GS_OK;
  r.n = 0;
  r.bytes = 0;
  r.scope = r.slot = 0;
  r.msg = nullptr;
}
// Gives back what a result holds; a scope's handles stay the scope's.
void undo(gs_result& r) noexcept;

template <class F>
gs_result guarded(F&& f) noexcept {
  gs_result r; // tag and w are read up to n only
  clear(r);
  try {
    f(r);
  } catch (...) {
    undo(r);
    fail_current(r);
  }
  return r;
}

// Entries that the table lists, one file each.
gs_result op(const char*, const char*);
gs_error call(uint64_t, gs_frame*, const uint64_t*);
gs_result schema(uint64_t);
gs_result overloads(const char*);
void free_block(void*);
uint64_t release(const uint64_t*, size_t);
gs_result retain(uint64_t);
gs_result describe(uint64_t, gs_desc*);
int64_t live();
void scope_begin(uint32_t);
void scope_end();
gs_result scope_keep(uint32_t, uint32_t, uint64_t);
int32_t scope_drop(uint32_t, uint32_t, uint64_t);
gs_result backward(const uint64_t*, size_t, const uint64_t*, const uint64_t*, size_t, int, int, uint32_t);
gs_result grad(const uint64_t*, size_t, const uint64_t*, size_t, const uint64_t*, int, int, int, uint32_t);
gs_result get_grads(const uint64_t*, size_t);
gs_result set_grad(uint64_t, uint64_t);
gs_result zero_grads(const uint64_t*, size_t, int);
gs_result set_requires_grad(uint64_t, int);
gs_result set_data(uint64_t, uint64_t);
gs_result grad_fn(uint64_t);
int mode(int);
gs_result enter(int, int);
gs_result leave(int, int);
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
void set_go_function(gs_go_function);
size_t dead_functions(uint64_t*, size_t);
uint64_t own(uint64_t);
gs_result node(uint64_t, const uint64_t*, size_t, const uint64_t*, size_t, const uint8_t*, const uint64_t*, size_t);
gs_result hook(uint64_t, uint64_t);
gs_result unhook(uint64_t, uint64_t);
gs_result accumulated(uint64_t, uint64_t);
gs_result autocast_enter(int, int, int);
gs_result autocast_leave(int, uint64_t);
gs_result autocast_state(int);
gs_result set_flag(int, int);
gs_result get_flag(int);
gs_result profile_begin();
gs_result profile_end(uint64_t);
gs_result record_begin(uint64_t, const uint64_t*, size_t);
gs_result record_end(const uint64_t*, size_t);
void record_cancel();
void record_fail(const char*);
uint64_t record_current(int64_t*);
gs_result record_plan(uint64_t);
gs_result record_outputs(uint64_t);
gs_result record_set(uint64_t, uint64_t, uint32_t, double);
gs_result replay(uint64_t, const uint64_t*, size_t, uint32_t);
gs_result record_text(uint64_t);
void record_free(uint64_t);

} // namespace gs
