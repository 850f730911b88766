// Random numbers, threads, facts about the process, and the table itself.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <dlfcn.h>
#include <malloc.h>
#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <set>

#include "shim.h"

extern "C" int MKL_Set_Num_Threads_Local(int) __attribute__((weak)); // absent where libtorch has another BLAS

namespace gs {

at::Generator generator_of(uint64_t g) {
  if (!g) return at::detail::getDefaultCPUGenerator();
  return at::Generator(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(reinterpret_cast<c10::GeneratorImpl*>(g)));
}

gs_result manual_seed(uint64_t seed) {
  return guarded([&](gs_result&) { at::manual_seed(seed); });
}

gs_result generator(uint64_t seed) {
  return guarded([&](gs_result& r) {
    auto g = at::detail::createCPUGenerator(seed);
    put(r, GS_GENERATOR, reinterpret_cast<uint64_t>(g.unsafeReleaseGeneratorImpl()));
  });
}

void generator_free(uint64_t g) {
  if (g) c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(reinterpret_cast<c10::GeneratorImpl*>(g));
}

gs_result generator_seed(uint64_t g, uint64_t seed) {
  return guarded([&](gs_result&) {
    auto gen = generator_of(g);
    std::lock_guard<std::mutex> lock(gen.mutex());
    gen.set_current_seed(seed);
  });
}

gs_result generator_state(uint64_t g) {
  return guarded([&](gs_result& r) {
    auto gen = generator_of(g);
    std::lock_guard<std::mutex> lock(gen.mutex());
    put_tensor(r, gen.get_state());
  });
}

gs_result generator_set_state(uint64_t g, uint64_t state) {
  return guarded([&](gs_result&) {
    auto gen = generator_of(g);
    std::lock_guard<std::mutex> lock(gen.mutex());
    gen.set_state(tensor_of(state));
  });
}

namespace {

std::atomic<int> process_team{0}; // 0 = libtorch's own choice

void apply_team(Thread& t, int n) {
  // libtorch sets a thread's number at its first parallel loop: once for itself and once for every library that inlines
  // at::parallel_for. Here it happens for libtorch, whose first answer is its own choice, and for this library.
  static const int own_choice = at::get_num_threads();
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  omp_set_num_threads(n ? n : own_choice);
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(n); // 0 = the global number
  t.team = n;
}

void check_threads(int n) { TORCH_CHECK(n > 0, "the number of threads is ", n, ", want at least 1"); }

} // namespace

void set_team(Thread& t, uint32_t flags) {
  int want = process_team.load(std::memory_order_relaxed);
  if (t.fixed_team)
    want = t.fixed_team;
  else if ((flags & GS_CONTENDED) && !t.steady && !t.depth)
    want = 1;
  // The second half: another library's first parallel loop on this thread undid it.
  if (want != t.team || (want && omp_get_max_threads() != want)) apply_team(t, want);
}

gs_result set_num_threads(int n) {
  return guarded([&](gs_result&) {
    check_threads(n);
    at::set_num_threads(n);
    process_team = n;
    set_team(thread(), 0);
  });
}

gs_result set_thread_threads(int n) {
  return guarded([&](gs_result&) {
    check_threads(n);
    Thread& t = thread();
    t.fixed_team = n;
    set_team(t, 0);
  });
}

int num_threads() {
  set_team(thread(), 0);
  return at::get_num_threads();
}

int parallel_threads() {
  set_team(thread(), 0);
  std::mutex m;
  std::set<pthread_t> seen;
  at::parallel_for(0, 64, 1, [&](int64_t, int64_t) {
    std::lock_guard<std::mutex> lock(m);
    seen.insert(pthread_self());
  });
  return static_cast<int>(seen.size());
}

int64_t heap_in_use() {
  const struct mallinfo2 m = mallinfo2();
  return static_cast<int64_t>(m.uordblks + m.hblkhd);
}

const char* cpu_capability() {
  static const std::string s = at::get_cpu_capability();
  return s.c_str();
}

gs_result config() {
  return guarded([&](gs_result& r) {
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(at::show_config() + at::get_parallel_info())));
  });
}

gs_result load_ops(const char* path) {
  return guarded([&](gs_result&) {
    if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL)) throw CallError(dlerror());
  });
}

} // namespace gs

extern "C" const gs_api* gospml_torch_api(uint32_t abi) {
  if (abi != GOSPML_TORCH_ABI) return nullptr;
  static const gs_api api = {GOSPML_TORCH_ABI,
                             sizeof(gs_api),
                             TORCH_VERSION,
                             gs::op,
                             gs::call,
                             gs::schema,
                             gs::overloads,
                             gs::free_block,
                             gs::release,
                             gs::retain,
                             gs::describe,
                             gs::live,
                             gs::scope_begin,
                             gs::scope_end,
                             gs::scope_keep,
                             gs::scope_drop,
                             gs::backward,
                             gs::grad,
                             gs::get_grads,
                             gs::set_grad,
                             gs::zero_grads,
                             gs::set_requires_grad,
                             gs::set_data,
                             gs::grad_fn,
                             gs::mode,
                             gs::enter,
                             gs::leave,
                             gs::manual_seed,
                             gs::generator,
                             gs::generator_free,
                             gs::generator_seed,
                             gs::generator_state,
                             gs::generator_set_state,
                             gs::set_num_threads,
                             gs::set_thread_threads,
                             gs::num_threads,
                             gs::parallel_threads,
                             gs::heap_in_use,
                             gs::cpu_capability,
                             gs::config,
                             gs::load_ops,
                             gs::set_go_function,
                             gs::dead_functions,
                             gs::own,
                             gs::node,
                             gs::hook,
                             gs::unhook,
                             gs::autocast_enter,
                             gs::autocast_leave,
                             gs::autocast_state,
                             gs::set_flag,
                             gs::get_flag,
                             gs::profile_begin,
                             gs::profile_end,
                             gs::record_begin,
                             gs::record_end,
                             gs::record_cancel,
                             gs::record_fail,
                             gs::record_current,
                             gs::record_plan,
                             gs::record_outputs,
                             gs::record_set,
                             gs::replay,
                             gs::record_text,
                             gs::record_free,
                             gs::accumulated};
  static const bool once = [] {
    // Keep freed memory for the next step: returning it to the kernel costs page faults on every large temporary.
    if (!mallopt(M_MMAP_THRESHOLD, 1 << 30)) mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that an older glibc takes
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    return true;
  }();
  (void)once;
  return &api;
}
