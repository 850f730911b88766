// 16 floats. Compiled with AVX-512 F, BW, DQ, VL; nothing here may be seen by other files (anonymous namespace, no STL).
#pragma once

struct Lanes {
  __m512 v;
  Lanes() = default;
  Lanes(__m512 x) : v(x) {}
  explicit Lanes(double x) : v(_mm512_set1_ps(static_cast<float>(x))) {}
};
static_assert(sizeof(Lanes) == 64);

#define FN inline __attribute__((always_inline))
FN Lanes operator+(Lanes a, Lanes b) { return _mm512_add_ps(a.v, b.v); }
FN Lanes operator-(Lanes a, Lanes b) { return _mm512_sub_ps(a.v, b.v); }
FN Lanes operator*(Lanes a, Lanes b) { return _mm512_mul_ps(a.v, b.v); }
FN Lanes operator-(Lanes a) { return _mm512_xor_ps(a.v, _mm512_set1_ps(-0.f)); }
FN __mmask16 operator==(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
FN __mmask16 operator<(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
FN __mmask16 operator>(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ); }
FN __mmask16 operator<=(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ); }
FN __mmask16 operator>=(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }

FN void load(const float* p, Lanes& x) { x.v = _mm512_loadu_ps(p); }
FN void store(float* p, Lanes x) { _mm512_storeu_ps(p, x.v); }
FN double total_of(Lanes x) {
  const __m512d s = _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x.v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1)));
  return _mm512_reduce_add_pd(s);
}

FN Lanes select(__mmask16 m, Lanes a, Lanes b) { return _mm512_mask_blend_ps(m, b.v, a.v); }
// The second operand of max and min comes through where one is NaN.
FN Lanes clamp_min(Lanes x, Lanes lo) { return _mm512_max_ps(lo.v, x.v); }
FN Lanes clamp_max(Lanes x, Lanes hi) { return _mm512_min_ps(hi.v, x.v); }
FN Lanes absolute(Lanes x) { return _mm512_andnot_ps(_mm512_set1_ps(-0.f), x.v); }
FN Lanes fma(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
FN Lanes fma(Lanes a, Lanes b, double c) { return fma(a, b, Lanes(c)); }
FN Lanes reciprocal(Lanes x) {
  const __m512 r = _mm512_rcp14_ps(x.v);
  return _mm512_mul_ps(r, _mm512_fnmadd_ps(x.v, r, _mm512_set1_ps(2.f)));
}

// n = round(x / ln 2); the rest is within ±ln 2 / 2.
FN Lanes reduced(Lanes x, Lanes& n) {
  n.v = _mm512_roundscale_ps(_mm512_mul_ps(x.v, _mm512_set1_ps(1.442695041f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return fma(n, Lanes(-1.428606765330187e-6), fma(n, Lanes(-0.693145751953125), x));
}
FN Lanes power_of_two(Lanes n) { return _mm512_scalef_ps(_mm512_set1_ps(1.f), n.v); }
FN Lanes scaled(Lanes x, Lanes n) { return _mm512_scalef_ps(x.v, n.v); }

// x = m·2^k with m in [√½, √2).
FN Lanes mantissa(Lanes x, Lanes& k) {
  const __m512i root = _mm512_set1_epi32(0x3f3504f3), i = _mm512_sub_epi32(_mm512_castps_si512(x.v), root);
  k.v = _mm512_cvtepi32_ps(_mm512_srai_epi32(i, 23));
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_epi32(i, _mm512_set1_epi32(0x7fffff)), root));
}

FN void convert(const int8_t* p, float* to) { _mm512_storeu_ps(to, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))); }
FN void convert_bf16(const uint16_t* p, float* to) {
  _mm512_storeu_ps(to, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16)));
}
FN void convert_fp16(const uint16_t* p, float* to) { _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))); }
#undef FN
