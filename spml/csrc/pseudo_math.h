// Order of scores for the selection of pseudo-labels: what the CPU's and the card's kernels share. No ATen, no STL.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define GOSPML_PSEUDO_FN __host__ __device__ __forceinline__
#else
#define GOSPML_PSEUDO_FN inline
#endif

namespace spml {

// What becomes of the classes with the lowest averages in DAMP; the numbers are those of spml::damp_labels.
enum DampForm : int64_t { kDampDefault = 0, kDampPaper = 1, kDampCount = 2, kDampCode = 3 };

// An integer that orders as a stable ascending sort does: both zeros are equal, all NaN are equal and above everything.
GOSPML_PSEUDO_FN int32_t order_of(float x) {
  int32_t k;
  memcpy(&k, &x, sizeof k);
  k = k < 0 ? INT32_MIN - k : k;
  return x != x ? INT32_MAX : k;
}

GOSPML_PSEUDO_FN int64_t order_of(double x) {
  int64_t k;
  memcpy(&k, &x, sizeof k);
  k = k < 0 ? INT64_MIN - k : k;
  return x != x ? INT64_MAX : k;
}

} // namespace spml
