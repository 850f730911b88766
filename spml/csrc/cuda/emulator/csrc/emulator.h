// CUDA on a CPU, for tests: the threads of a block are fibers of one OS thread, blocks run one after another. What it
// finds: results that depend on the order of threads or blocks (kernels run in several), barriers and shuffles that not
// all threads reach or that they reach at different places, reads of shared memory that nobody wrote (with
// EMULATOR_POISON), and with the compiler's -fsanitize=alignment,bounds misaligned vectors and indices beyond shared
// arrays. What it does not: the card's memory model, its libm's last bits, speed.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#ifdef EMULATOR_POISON
#include <link.h>
#endif

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local // one OS thread runs a block

namespace emulator {

// The orders in which threads run between barriers, and blocks.
enum Schedule { kAscending, kDescending, kTurns, kRandom, kSchedules };

struct Dim {
  unsigned x = 0, y = 0, z = 0;
};

struct Place {
  const char* file = nullptr;
  int line = 0;
  bool operator==(const Place&) const = default;
};

enum State { kReady, kAtBlock, kAtWarp, kDone };

struct Fiber {
  ucontext_t context;
  jmp_buf at;
  std::unique_ptr<char[]> stack;
  bool begun = false;
  State state = kDone;
  Place place;
  uint64_t slot = 0; // what the lane shows to its warp
};

constexpr size_t kStack = 128 << 10;
constexpr unsigned kMaxThreads = 1024;

[[noreturn]] inline void broken(const char* what, Place a = {}, Place b = {}) {
  fprintf(stderr, "emulator: %s", what);
  for (Place p : {a, b})
    if (p.file) fprintf(stderr, " (%s:%d)", p.file, p.line);
  fputs("\n", stderr);
  fflush(nullptr);
  _Exit(3);
}

class Machine {
 public:
  Schedule schedule = kAscending;
  uint64_t seed = 1;
  long launches = 0;
  Dim thread, block, blocks, threads;

  static Machine& get() {
    static auto* m = new Machine;
    return *m;
  }

  template <class Body>
  void run(unsigned grid, unsigned count, const Body& body) {
    const std::lock_guard<std::mutex> lock(one_);
    if (grid == 0 || grid > 0x7fffffffu || count == 0 || count > kMaxThreads)
      broken("a launch with a grid or block that no card takes");
    launches++;
    body_ = &body;
    call_ = [](const void* b) { (*static_cast<const Body*>(b))(); };
    blocks.x = grid, threads.x = count;
    blocks.y = blocks.z = threads.y = threads.z = 1;
    if (fibers_.size() < count) fibers_.resize(count);
    random_.seed(seed + static_cast<uint64_t>(launches));
    std::vector<unsigned> order(grid);
    std::iota(order.begin(), order.end(), 0u);
    if (schedule == kDescending) std::reverse(order.begin(), order.end());
    if (schedule == kRandom) std::shuffle(order.begin(), order.end(), random_);
    for (unsigned b : order) {
      block.x = b;
      poison();
      run_block(count);
    }
  }

  // Of the fiber that runs: waits until the scheduler lets it go on.
  void wait(State s, Place p) {
    Fiber& f = *fibers_[now_];
    f.state = s;
    f.place = p;
    clear(now_);
    if (!_setjmp(f.at)) _longjmp(main_, 1);
  }

  unsigned lane() const { return now_ % 32; }
  uint64_t& slot(unsigned lane) { return fibers_[now_ / 32 * 32 + lane]->slot; }
  unsigned lanes() const { return std::min(32u, threads.x - now_ / 32 * 32); }

 private:
  std::mutex one_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  jmp_buf main_;
  const void* body_ = nullptr;
  void (*call_)(const void*) = nullptr;
  unsigned now_ = 0;
  uint64_t ready_[kMaxThreads / 64] = {};
  std::mt19937_64 random_;

  void set(unsigned i) { ready_[i / 64] |= uint64_t(1) << i % 64; }
  void clear(unsigned i) { ready_[i / 64] &= ~(uint64_t(1) << i % 64); }

  static void entry() {
    Machine& m = get();
    for (;;) {
      m.call_(m.body_);
      m.wait(kDone, {});
    }
  }

  void resume(unsigned i) {
    Fiber& f = *fibers_[i];
    now_ = i;
    thread.x = i;
    if (_setjmp(main_)) return;
    if (f.begun) _longjmp(f.at, 1);
    f.begun = true;
    f.stack = std::make_unique<char[]>(kStack);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, entry, 0);
    setcontext(&f.context);
  }

  // The next fiber from `from` on, upwards or downwards, round the end; -1 if none is ready.
  int next(unsigned from, unsigned n, bool down) const {
    const unsigned words = (n + 63) / 64;
    const auto some = [&](unsigned word, uint64_t mask) -> int {
      const uint64_t bits = ready_[word] & mask;
      if (!bits) return -1;
      return static_cast<int>(word * 64 + (down ? 63 - __builtin_clzll(bits) : __builtin_ctzll(bits)));
    };
    const uint64_t up_to = from % 64 == 63 ? ~uint64_t(0) : (uint64_t(1) << (from % 64 + 1)) - 1,
                   from_on = ~uint64_t(0) << from % 64;
    if (int i = some(from / 64, down ? up_to : from_on); i >= 0) return i;
    for (unsigned k = 1; k <= words; k++)
      if (int i = some((from / 64 + (down ? words - k % words : k)) % words, ~uint64_t(0)); i >= 0) return i;
    return -1;
  }

  int choose(unsigned n) {
    switch (schedule) {
      case kAscending: return next(0, n, false);
      case kDescending: return next(n - 1, n, true);
      case kTurns: return next((now_ + 1) % n, n, false);
      default: return next(static_cast<unsigned>(random_() % n), n, random_() & 1);
    }
  }

  void run_block(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
      if (!fibers_[i]) fibers_[i] = std::make_unique<Fiber>();
      fibers_[i]->state = kReady;
      set(i);
    }
    now_ = 0;
    unsigned done = 0, at_block = 0;
    unsigned at_warp[kMaxThreads / 32] = {};
    while (done < n) {
      const int i = choose(n);
      if (i < 0)
        broken("a barrier that not all threads of the block, or a shuffle that not all lanes of the warp, reach",
               stuck(n, kAtBlock), stuck(n, kAtWarp));
      resume(static_cast<unsigned>(i));
      const Fiber& f = *fibers_[i];
      if (f.state == kDone) {
        done++;
      } else if (f.state == kAtWarp) {
        const unsigned w = static_cast<unsigned>(i) / 32, size = std::min(32u, n - w * 32);
        if (++at_warp[w] == size) release(w * 32, size, "lanes of a warp meet at different places"), at_warp[w] = 0;
      } else if (f.state == kAtBlock) {
        if (++at_block == n) release(0, n, "threads of a block meet at different barriers"), at_block = 0;
      }
    }
  }

  void release(unsigned from, unsigned n, const char* mixed) {
    const Place p = fibers_[from]->place;
    for (unsigned i = from; i < from + n; i++) {
      Fiber& f = *fibers_[i];
      if (f.place != p) broken(mixed, p, f.place);
      f.state = kReady;
      set(i);
    }
  }

  Place stuck(unsigned n, State s) const {
    for (unsigned i = 0; i < n; i++)
      if (fibers_[i]->state == s) return fibers_[i]->place;
    return {};
  }

  // Shared memory begins with anything.
  void poison() {
#ifdef EMULATOR_POISON
    static const auto range = [] {
      std::pair<char*, size_t> r{nullptr, 0};
      dl_iterate_phdr(
          [](dl_phdr_info* info, size_t, void* out) {
            for (int i = 0; i < info->dlpi_phnum; i++)
              if (info->dlpi_phdr[i].p_type == PT_TLS)
                *static_cast<std::pair<char*, size_t>*>(out) = {static_cast<char*>(info->dlpi_tls_data),
                                                                info->dlpi_phdr[i].p_memsz};
            return 1; // the program itself comes first
          },
          &r);
      return r;
    }();
    for (size_t i = 0; i < range.second; i++) range.first[i] = static_cast<char>(0x7f ^ (schedule * 37 + i * 11));
#endif
  }
};

// What every lane of a warp shows, seen by all: f is called when all have shown.
template <class T, class F>
auto exchange(const T& x, Place p, const F& f) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  Machine& m = Machine::get();
  uint64_t bits = 0;
  memcpy(&bits, &x, sizeof x);
  m.slot(m.lane()) = bits;
  m.wait(kAtWarp, p);
  const auto y = f(m);
  m.wait(kAtWarp, p); // nobody shows the next before all have seen this
  return y;
}

template <class T>
T lane_value(Machine& m, unsigned lane, T own) {
  if (lane >= 32) return own;
  if (lane >= m.lanes()) broken("a shuffle from a lane that the block does not have");
  memcpy(&own, &m.slot(lane), sizeof own);
  return own;
}

inline void whole(unsigned mask) {
  if (mask != 0xffffffffu) broken("the emulator knows warps as a whole only");
}

} // namespace emulator

#define threadIdx (emulator::Machine::get().thread)
#define blockIdx (emulator::Machine::get().block)
#define gridDim (emulator::Machine::get().blocks)
#define blockDim (emulator::Machine::get().threads)

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::Machine::get().wait(emulator::kAtBlock, {file, line});
}

template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned d, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::whole(mask);
  return emulator::exchange(x, {file, line},
                            [&](emulator::Machine& m) { return emulator::lane_value(m, m.lane() + d, x); });
}

template <class T>
T __shfl_xor_sync(unsigned mask, T x, unsigned d, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::whole(mask);
  return emulator::exchange(x, {file, line},
                            [&](emulator::Machine& m) { return emulator::lane_value(m, m.lane() ^ d, x); });
}

template <class T>
T __shfl_sync(unsigned mask, T x, unsigned from, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::whole(mask);
  return emulator::exchange(x, {file, line},
                            [&](emulator::Machine& m) { return emulator::lane_value(m, from % 32, x); });
}

inline unsigned __ballot_sync(unsigned mask, bool vote, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  emulator::whole(mask);
  return emulator::exchange(vote, {file, line}, [](emulator::Machine& m) {
    unsigned all = 0;
    for (unsigned i = 0; i < m.lanes(); i++) all |= static_cast<unsigned>(m.slot(i) & 1) << i;
    return all;
  });
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }

template <class T>
T atomicAdd(T* p, T x) {
  const T before = *p;
  *p += x;
  return before;
}

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
using cudaStream_t = void*;
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

namespace spml::cuda {

template <class... P, class... A>
void launch(void (*kernel)(P...), unsigned blocks, unsigned threads, cudaStream_t, const A&... arguments) {
  emulator::Machine::get().run(blocks, threads, [&] { kernel(arguments...); });
}

} // namespace spml::cuda
