// Frozen networks in bfloat16 for processors that multiply it (AVX512_BF16): sums, normalisation and softmax are
// float32.
#include <stdint.h>

#include "frozen_kernels.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace {
using namespace spml;
#include "lanes_avx512.h"
#include "lanes_math.h"
#define FN inline __attribute__((always_inline))
using Number = uint16_t; // the upper half of a float
using Factor = __m512bh;
constexpr int kPair = 2;
constexpr int kHalf = 7; // as in frozen_avx512.cpp
FN Factor broadcast(const uint16_t* p) {
  int32_t both;
  __builtin_memcpy(&both, p, sizeof both);
  return (__m512bh)_mm512_set1_epi32(both);
}
FN void load_factor(const uint16_t* p, Factor& x) { x = (__m512bh)_mm512_loadu_si512(p); }
FN Lanes multiply(Factor a, Factor b, Lanes c) { return _mm512_dpbf16_ps(c.v, a, b); }
FN void load(const uint16_t* p, Lanes& x) {
  x.v = _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
FN void store(uint16_t* p, Lanes x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x.v));
}
FN void store_some(float* p, Lanes x, int64_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
FN void store_some(uint16_t* p, Lanes x, int64_t n) {
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), (__m256i)_mm512_cvtneps_pbh(x.v));
}
#undef FN
#include "frozen_loop.h"
} // namespace

const spml::FrozenKernels spml::frozen_bf16 = GOSPML_FROZEN_KERNELS;
#else
const spml::FrozenKernels spml::frozen_bf16 = {}; // nobody is sent here
#endif
