// Runs a pass of batchwise.h over tensors: types, threads, rows that do not count.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <vector>

#include "batchwise.h"
#include "parallel.h"
#include "problem.h"

namespace spml {

using Sums = std::array<double, 3>;

// The set that kernels() chose.
const BatchKernels& batch_kernels();

// Where a pass that selects puts the keys that are not below least, in the wide type, and their entries: each has room
// for to - from.
struct Found {
  double least;
  void* keys;
  int32_t* at; // from the first entry
  int64_t n = 0;
};

// Tensors of one shape [B, C], contiguous; inputs of any type that problem.h lets through, outputs float, double or
// bfloat16.
struct Pass {
  Batchwise id;
  std::vector<at::Tensor> in, out; // no outputs: sums only; what a pass selects is no output here
  std::vector<double> params;

  // All entries, or those of the rows that count, in chunks whose sums are added in order.
  Sums run(const Rows& rows) const;
  // Entries [from, to) into sums. A pass that selects appends to found.
  void run(int64_t from, int64_t to, Sums& sums, Found* found = nullptr) const;
};

// Calls f(i) -> Sums for each i < n on all threads and adds in order.
template <class F>
Sums add_chunks(int64_t n, const F& f) {
  std::vector<Sums> parts(n);
  sum_chunks(n, [&](int64_t i) {
    parts[i] = f(i);
    return 0.0;
  });
  Sums total{};
  for (const Sums& p : parts)
    for (int k = 0; k < 3; k++) total[k] += p[k];
  return total;
}

} // namespace spml
