// What the programs that check the kernels share: memory whose neighbours nobody may touch, all schedules, comparison.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>
#include <random>
#include <vector>

namespace check {

inline long done = 0, wrong = 0;
inline bool quick = false; // fewer shapes: what finding a fault needs

[[gnu::format(printf, 1, 2)]] inline void fail(const char* format, ...) {
  if (wrong++ >= 5) return;
  va_list a;
  va_start(a, format);
  fputs("wrong: ", stderr);
  vfprintf(stderr, format, a);
  fputs("\n", stderr);
  va_end(a);
}

// Where the elements of a buffer lie.
enum Where {
  kAligned, // at the beginning of a page
  kShifted, // one element behind it
  kAtEnd    // up to the end of a page
};

// Device memory: pages before and behind end the program when they are touched; bytes that belong to nobody must stay
// what they are.
template <class T>
class Memory {
 public:
  explicit Memory(int64_t n, Where where = kAligned) : n_(n) {
    const size_t page = static_cast<size_t>(getpagesize()), bytes = static_cast<size_t>(n + 1) * sizeof(T);
    size_ = (bytes + page - 1) / page * page;
    all_ = static_cast<char*>(mmap(nullptr, size_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (all_ == MAP_FAILED || mprotect(all_ + page, size_, PROT_READ | PROT_WRITE)) abort();
    begin_ = all_ + page;
    memset(begin_, kNobodys, size_);
    p_ = reinterpret_cast<T*>(where == kAtEnd ? begin_ + size_ - static_cast<size_t>(n) * sizeof(T)
                                              : begin_ + (where == kShifted ? sizeof(T) : 0));
  }
  Memory(Memory&& o) noexcept
      : all_(std::exchange(o.all_, nullptr)), begin_(o.begin_), size_(o.size_), p_(o.p_), n_(o.n_) {}
  ~Memory() {
    if (all_) munmap(all_, size_ + 2 * static_cast<size_t>(getpagesize()));
  }
  T* get() { return p_; }
  const T* get() const { return p_; }
  T& operator[](int64_t i) { return p_[i]; }
  const T& operator[](int64_t i) const { return p_[i]; }
  int64_t size() const { return n_; }
  bool intact() const {
    const auto *from = reinterpret_cast<const char*>(p_), *to = from + static_cast<size_t>(n_) * sizeof(T);
    for (const char* c = begin_; c < begin_ + size_; c++)
      if ((c < from || c >= to) && *c != kNobodys) return false;
    return true;
  }
  bool same(const Memory& o) const { return n_ == o.n_ && !memcmp(p_, o.p_, static_cast<size_t>(n_) * sizeof(T)); }

 private:
  static constexpr char kNobodys = static_cast<char>(0xff); // NaN in every type of numbers
  char* all_ = nullptr;
  char* begin_ = nullptr;
  size_t size_ = 0;
  T* p_ = nullptr;
  int64_t n_ = 0;
};

template <class T>
T number(double x) {
  return static_cast<T>(x);
}
template <>
inline __half number<__half>(double x) {
  return __float2half(static_cast<float>(x));
}
template <>
inline __nv_bfloat16 number<__nv_bfloat16>(double x) {
  return __float2bfloat16_rn(static_cast<float>(x));
}
inline double plain(float x) { return x; }
inline double plain(double x) { return x; }
inline double plain(int8_t x) { return x; }
inline double plain(__half x) { return __half2float(x); }
inline double plain(__nv_bfloat16 x) { return __bfloat162float(x); }

// Equal up to a part of `size`; NaN equals NaN.
inline bool near(double got, double want, double part, double size) {
  if (want != want) return got != got;
  return fabs(got - want) <= part * size;
}

// Runs f in every order of threads and blocks; f returns what it made, which has to have the same bits each time.
// Returns the first.
template <class F>
auto in_every_order(const char* what, const F& f) {
  auto& m = emulator::Machine::get();
  m.schedule = emulator::kAscending;
  auto first = f();
  const auto intact = [&](const auto& r) {
    if (!std::apply([](const auto&... x) { return (x.intact() && ...); }, r))
      fail("%s: written beside its result", what);
  };
  intact(first);
  for (int s = 1; s < emulator::kSchedules + 1; s++) { // two random ones
    m.schedule = static_cast<emulator::Schedule>(std::min<int>(s, emulator::kRandom));
    m.seed = static_cast<uint64_t>(s) * 7919;
    const auto again = f();
    intact(again);
    const bool same = [&]<size_t... I>(std::index_sequence<I...>) {
      return (std::get<I>(first).same(std::get<I>(again)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(first)>>());
    if (!same) fail("%s: schedule %d gives other bits than the ascending one", what, s);
    done++;
  }
  return first;
}

inline void fault(int signal) {
  const char* text = signal == SIGILL ? "emulator: a misaligned address or an index beyond an array\n"
                                      : "emulator: memory that belongs to nobody was touched\n";
  if (write(2, text, strlen(text)) < 0) _exit(5);
  _exit(4);
}

inline int main(int argc, char** argv, const std::function<void()>& all) {
  static char stack[64 << 10]; // the fault may be on a fiber's
  stack_t s{};
  s.ss_sp = stack;
  s.ss_size = sizeof stack;
  sigaltstack(&s, nullptr);
  struct sigaction a{};
  a.sa_handler = fault;
  a.sa_flags = SA_ONSTACK;
  for (int n : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP}) sigaction(n, &a, nullptr);
  quick = argc > 1 && !strcmp(argv[1], "quick");
  all();
  printf("%ld checks, %ld launches, %ld wrong\n", done, emulator::Machine::get().launches, wrong);
  return wrong != 0;
}

} // namespace check
