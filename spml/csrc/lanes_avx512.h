// 16 floats. Compiled with AVX-512 F, BW, DQ, VL; nothing here may be seen by other files (anonymous namespace, no
// STL).
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

FN __mmask16 both(__mmask16 a, __mmask16 b) { return _kand_mask16(a, b); }
FN __mmask16 either(__mmask16 a, __mmask16 b) { return _kor_mask16(a, b); }
FN __mmask16 differ(__mmask16 a, __mmask16 b) { return _kxor_mask16(a, b); }
// Bits of the lanes in which key is not below least, NaN included.
FN unsigned reach(Lanes key, Lanes least) { return _mm512_cmp_ps_mask(key.v, least.v, _CMP_NLT_UQ); }
FN bool some(__mmask16 m) { return m != 0; }

FN void load(const float* p, Lanes& x) { x.v = _mm512_loadu_ps(p); }
FN void load(const int8_t* p, Lanes& x) {
  x.v = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
FN void store(float* p, Lanes x) { _mm512_storeu_ps(p, x.v); }
FN double total_of(Lanes x) {
  const __m512d s =
      _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x.v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1)));
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
  n.v = _mm512_roundscale_ps(_mm512_mul_ps(x.v, _mm512_set1_ps(1.442695041f)),
                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return fma(n, Lanes(-1.428606765330187e-6), fma(n, Lanes(-0.693145751953125), x));
}
FN Lanes power_of_two(Lanes n) { return _mm512_scalef_ps(_mm512_set1_ps(1.f), n.v); }

// x = m·2^k with m in [√½, √2).
FN Lanes mantissa(Lanes x, Lanes& k) {
  const __m512i root = _mm512_set1_epi32(0x3f3504f3), i = _mm512_sub_epi32(_mm512_castps_si512(x.v), root);
  k.v = _mm512_cvtepi32_ps(_mm512_srai_epi32(i, 23));
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_epi32(i, _mm512_set1_epi32(0x7fffff)), root));
}

// Tables in registers instead of long polynomials.
#define GOSPML_TABLES

// The bits of 2^(k/32), less k·2^18: adding n·2^18 for n = 32·m + k gives those of 2^(n/32).
alignas(64) constexpr int32_t kPowers[32] = {
    1065353216, 1065274759, 1065200323, 1065129999, 1065063874, 1065002042, 1064944595, 1064891632,
    1064843248, 1064799546, 1064760626, 1064726595, 1064697559, 1064673627, 1064654911, 1064641526,
    1064633587, 1064631215, 1064634532, 1064643661, 1064658730, 1064679870, 1064707212, 1064740894,
    1064781053, 1064827832, 1064881375, 1064941831, 1065009351, 1065084090, 1065166205, 1065255859};
// 1/(1+k/15), rounded, that less 1, and minus its logarithm.
alignas(64) constexpr float kInverse[16] = {1,
                                            0.9375f,
                                            0.882352948f,
                                            0.833333313f,
                                            0.789473712f,
                                            0.75f,
                                            0.714285731f,
                                            0.681818187f,
                                            0.652173936f,
                                            0.625f,
                                            0.600000024f,
                                            0.576923072f,
                                            0.555555582f,
                                            0.535714269f,
                                            0.517241359f,
                                            0.5f};
alignas(64) constexpr float kInverse1[16] = {0,
                                             -0.0625f,
                                             -0.117647052f,
                                             -0.166666687f,
                                             -0.210526288f,
                                             -0.25f,
                                             -0.285714269f,
                                             -0.318181813f,
                                             -0.347826064f,
                                             -0.375f,
                                             -0.399999976f,
                                             -0.423076928f,
                                             -0.444444418f,
                                             -0.464285731f,
                                             -0.482758641f,
                                             -0.5f};
alignas(64) constexpr float kLogs[16] = {0,
                                         0.0645385211f,
                                         0.125163135f,
                                         0.182321581f,
                                         0.236388742f,
                                         0.287682072f,
                                         0.336472213f,
                                         0.382992244f,
                                         0.427443979f,
                                         0.470003629f,
                                         0.510825584f,
                                         0.550046345f,
                                         0.587786617f,
                                         0.624154341f,
                                         0.659245669f,
                                         0.693147181f};

// e^x for x that a clamp has brought between the smallest normal float's logarithm and 88: x = n·ln 2/32 + f, e^f = 1 +
// f·(1 + f/2) with coefficients for |f| <= ln 2/64 [5.3e-8]. ln 2/32 is a float to 2.7e-9 of itself, which n
// makes 2.4e-7: hence its second part.
FN Lanes exp_clamped(Lanes x) {
  const Lanes big(12582912.0), t = fma(x, Lanes(46.16624130844683), big), k = t - big;
  const Lanes f = fma(k, Lanes(5.9520448e-11), fma(k, Lanes(-0.02166084945201874), x));
  const __m512i n = _mm512_castps_si512(t.v);
  const __m512i table = _mm512_permutex2var_epi32(_mm512_load_si512(kPowers), n, _mm512_load_si512(kPowers + 16));
  const Lanes p = _mm512_castsi512_ps(_mm512_add_epi32(table, _mm512_slli_epi32(n, 18)));
  return fma(p * f, fma(f, Lanes(0.5), Lanes(1.00001464)), p);
}

// 1 + x = (1 + r)/c with c from the table by round(15·x), |r| <= 1/30; log(1 + r) = r + r²·P2(r) [4.2e-8]. The first
// entry is 1: small x stay exact.
FN Lanes log1p_unit(Lanes x) {
  const __m512i k = _mm512_castps_si512(fma(x, Lanes(15.0), 12582912.0).v);
  const Lanes c = _mm512_permutexvar_ps(k, _mm512_load_ps(kInverse)),
              c1 = _mm512_permutexvar_ps(k, _mm512_load_ps(kInverse1));
  const Lanes r = fma(x, c, c1), q = fma(fma(r, Lanes(-0.25019699), 0.33351757), r, -0.49999997);
  return fma(r * r, q, r) + Lanes(_mm512_permutexvar_ps(k, _mm512_load_ps(kLogs)));
}

FN void convert(const int8_t* p, float* to) {
  _mm512_storeu_ps(to, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))));
}
FN void convert_bf16(const uint16_t* p, float* to) {
  _mm512_storeu_ps(to, _mm512_castsi512_ps(_mm512_slli_epi32(
                           _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16)));
}
FN void convert_fp16(const uint16_t* p, float* to) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
#undef FN
