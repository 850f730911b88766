// 8 floats. Compiled with AVX2, FMA, F16C; nothing here may be seen by other files (anonymous namespace, no STL).
#pragma once

struct Lanes {
  __m256 v;
  Lanes() = default;
  Lanes(__m256 x) : v(x) {}
  explicit Lanes(double x) : v(_mm256_set1_ps(static_cast<float>(x))) {}
};
static_assert(sizeof(Lanes) == 32);
struct Mask {
  __m256 v;
};

#define FN inline __attribute__((always_inline))
FN Lanes operator+(Lanes a, Lanes b) { return _mm256_add_ps(a.v, b.v); }
FN Lanes operator-(Lanes a, Lanes b) { return _mm256_sub_ps(a.v, b.v); }
FN Lanes operator*(Lanes a, Lanes b) { return _mm256_mul_ps(a.v, b.v); }
FN Lanes operator-(Lanes a) { return _mm256_xor_ps(a.v, _mm256_set1_ps(-0.f)); }
FN Mask operator==(Lanes a, Lanes b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
FN Mask operator<(Lanes a, Lanes b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
FN Mask operator>(Lanes a, Lanes b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
FN Mask operator<=(Lanes a, Lanes b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
FN Mask operator>=(Lanes a, Lanes b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
FN Mask both(Mask a, Mask b) { return {_mm256_and_ps(a.v, b.v)}; }
FN Mask either(Mask a, Mask b) { return {_mm256_or_ps(a.v, b.v)}; }
FN Mask differ(Mask a, Mask b) { return {_mm256_xor_ps(a.v, b.v)}; }
// Bits of the lanes in which key is not below least, NaN included.
FN unsigned reach(Lanes key, Lanes least) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(key.v, least.v, _CMP_NLT_UQ)));
}
FN bool some(Mask m) { return _mm256_movemask_ps(m.v) != 0; }

FN void load(const float* p, Lanes& x) { x.v = _mm256_loadu_ps(p); }
FN void load(const int8_t* p, Lanes& x) {
  x.v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
FN void store(float* p, Lanes x) { _mm256_storeu_ps(p, x.v); }
FN double total_of(Lanes x) {
  const __m256d s =
      _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x.v)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.v, 1)));
  const __m128d h = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
  return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
}

FN Lanes select(Mask m, Lanes a, Lanes b) { return _mm256_blendv_ps(b.v, a.v, m.v); }
// The second operand of max and min comes through where one is NaN.
FN Lanes clamp_min(Lanes x, Lanes lo) { return _mm256_max_ps(lo.v, x.v); }
FN Lanes clamp_max(Lanes x, Lanes hi) { return _mm256_min_ps(hi.v, x.v); }
FN Lanes absolute(Lanes x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.f), x.v); }
FN Lanes fma(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
FN Lanes fma(Lanes a, Lanes b, double c) { return fma(a, b, Lanes(c)); }
FN Lanes reciprocal(Lanes x) { return _mm256_div_ps(_mm256_set1_ps(1.f), x.v); }

// n = round(x / ln 2); the rest is within ±ln 2 / 2.
FN Lanes reduced(Lanes x, Lanes& n) {
  n.v =
      _mm256_round_ps(_mm256_mul_ps(x.v, _mm256_set1_ps(1.442695041f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return fma(n, Lanes(-1.428606765330187e-6), fma(n, Lanes(-0.693145751953125), x));
}
FN Lanes power_of_two(Lanes n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23));
}
FN Lanes scaled(Lanes x, Lanes n) { return x * power_of_two(n); }

// x = m·2^k with m in [√½, √2).
FN Lanes mantissa(Lanes x, Lanes& k) {
  const __m256i root = _mm256_set1_epi32(0x3f3504f3), i = _mm256_sub_epi32(_mm256_castps_si256(x.v), root);
  k.v = _mm256_cvtepi32_ps(_mm256_srai_epi32(i, 23));
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(i, _mm256_set1_epi32(0x7fffff)), root));
}

FN void convert(const int8_t* p, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))));
}
FN void convert_bf16(const uint16_t* p, float* to) {
  _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(
                           _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16)));
}
FN void convert_fp16(const uint16_t* p, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#undef FN
