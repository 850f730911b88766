// Frozen networks for avx512; see kernels_avx512.cpp for what stands where.
#include <immintrin.h>
#include <stdint.h>

#include "frozen_kernels.h"

namespace {
using namespace spml;
#include "lanes_avx512.h"
#include "lanes_math.h"
using Number = float;
using Factor = Lanes;
constexpr int kPair = 1;
constexpr int kHalf = 7; // 14 pixels by 2 vectors: 28 sums, 2 vectors of weights and a pixel fill the 32 registers
inline __attribute__((always_inline)) Lanes broadcast(const float* p) { return _mm512_set1_ps(*p); }
inline __attribute__((always_inline)) void store_some(float* p, Lanes x, int64_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
inline __attribute__((always_inline)) void load_factor(const float* p, Lanes& x) { load(p, x); }
inline __attribute__((always_inline)) Lanes multiply(Lanes a, Lanes b, Lanes c) { return fma(a, b, c); }
#include "frozen_loop.h"
} // namespace

const spml::FrozenKernels spml::frozen_avx512 = GOSPML_FROZEN_KERNELS;
