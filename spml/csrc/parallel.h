// Loops over fixed chunks: what is added up does not depend on the number of threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace spml {

// Elements of a chunk: 10 to 30 µs of work.
constexpr int64_t kChunk = 16384;
constexpr int64_t kBlock = 512; // entries that are converted at a time

// Calls f(i) -> double for each chunk i < n and adds the results in order. f must not throw. OpenMP by hand and not
// at::parallel_for, whose first loop on a thread, inlined here, would set the thread's number of threads anew.
template <class F>
double sum_chunks(int64_t n, const F& f) {
  if (n == 1) return f(int64_t{0});
  constexpr int64_t kFew = 64;
  double few[kFew];
  std::vector<double> many;
  double* sums = few;
  if (n > kFew) {
    many.resize(n);
    sums = many.data();
  }
  const int threads = omp_in_parallel() ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), n));
  if (threads <= 1) {
    for (int64_t i = 0; i < n; i++) sums[i] = f(i);
  } else {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++) sums[i] = f(i);
  }
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += sums[i];
  return total;
}

} // namespace spml
