// Frozen networks for avx2; see kernels_avx512.cpp for what stands where.
#include <immintrin.h>
#include <stdint.h>

#include "frozen_kernels.h"

namespace {
using namespace spml;
#include "lanes_avx2.h"
#include "lanes_math.h"
using Number = float;
using Factor = Lanes;
constexpr int kPair = 1;
constexpr int kHalf = 3; // 6 pixels by 2 vectors of 16 registers
inline __attribute__((always_inline)) Lanes broadcast(const float* p) { return _mm256_set1_ps(*p); }
inline __attribute__((always_inline)) void store_some(float* p, Lanes x, int64_t n) {
  float all[8];
  store(all, x);
  for (int64_t i = 0; i < n; i++) p[i] = all[i];
}
inline __attribute__((always_inline)) void load_factor(const float* p, Lanes& x) { load(p, x); }
inline __attribute__((always_inline)) Lanes multiply(Lanes a, Lanes b, Lanes c) { return fma(a, b, c); }
#include "frozen_loop.h"
} // namespace

const spml::FrozenKernels spml::frozen_avx2 = GOSPML_FROZEN_KERNELS;
