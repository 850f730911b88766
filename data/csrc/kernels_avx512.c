/* AVX-512 (F, BW, VL, DQ) kernels. Compiled with those flags: include nothing here that other files could share code
 * with. */
#include <immintrin.h>

#include "kernels.h"

/* See kernels_avx2.c for the byte orders. */
#define PAIR_01 _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
#define PAIR_23 _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1)
#define DROP_X _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)

static inline __m128i load(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }

static inline __m512i load4(const uint8_t* const rows[ROWS_AT_ONCE], size_t at) {
  __m512i v = _mm512_castsi128_si512(load(rows[0] + at));
  v = _mm512_inserti32x4(v, load(rows[1] + at), 1);
  v = _mm512_inserti32x4(v, load(rows[2] + at), 2);
  return _mm512_inserti32x4(v, load(rows[3] + at), 3);
}

/* One output pixel of four rows: the sixteen 32-bit channel values, not yet clipped. */
static inline __m512i pixel4(const uint8_t* const rows[ROWS_AT_ONCE], size_t at, int32_t pairs, const int32_t* split,
                             __m512i m01, __m512i m23) {
  __m512i low = _mm512_set1_epi32(WEIGHT_HALF), high = _mm512_setzero_si512();
  int32_t j = 0;
  for (; j + 1 < pairs; j += 2, split += 4, at += 12) {
    __m512i v = load4(rows, at), p = _mm512_shuffle_epi8(v, m01), q = _mm512_shuffle_epi8(v, m23);
    low = _mm512_add_epi32(low, _mm512_madd_epi16(p, _mm512_set1_epi32(split[0])));
    high = _mm512_add_epi32(high, _mm512_madd_epi16(p, _mm512_set1_epi32(split[1])));
    low = _mm512_add_epi32(low, _mm512_madd_epi16(q, _mm512_set1_epi32(split[2])));
    high = _mm512_add_epi32(high, _mm512_madd_epi16(q, _mm512_set1_epi32(split[3])));
  }
  if (j < pairs) {
    __m512i p = _mm512_shuffle_epi8(load4(rows, at), m01);
    low = _mm512_add_epi32(low, _mm512_madd_epi16(p, _mm512_set1_epi32(split[0])));
    high = _mm512_add_epi32(high, _mm512_madd_epi16(p, _mm512_set1_epi32(split[1])));
  }
  return _mm512_srai_epi32(_mm512_add_epi32(low, _mm512_slli_epi32(high, 15)), WEIGHT_BITS);
}

static inline __attribute__((always_inline)) void horizontal_pairs(const uint8_t* const rows[ROWS_AT_ONCE],
                                                                   uint8_t* const targets[ROWS_AT_ONCE], const axis* a,
                                                                   int32_t x0, int32_t n, int32_t fixed) {
  const __m512i m01 = _mm512_broadcast_i32x4(PAIR_01), m23 = _mm512_broadcast_i32x4(PAIR_23);
  const __m512i drop = _mm512_broadcast_i32x4(DROP_X);
  const int32_t *first = a->first + x0, *taps = a->taps + x0, *split = a->split + (int64_t)x0 * a->pairs * 2;
  for (int32_t x = 0; x < n; x += 4) {
    __m512i v[4];
    for (int k = 0; k < 4; k++) {
      int32_t i = x + k < n ? x + k : n - 1; /* past the end: computed twice, written into the slack */
      int32_t pairs = fixed ? fixed : (taps[i] + 1) / 2; /* no reading far behind the row for the sake of zeros */
      v[k] = pixel4(rows, (size_t)first[i] * 3, pairs, split + (int64_t)i * a->pairs * 2, m01, m23);
    }
    __m512i b = _mm512_packus_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
    b = _mm512_shuffle_epi8(b, drop);
    size_t to = (size_t)x * 3;
    _mm_storeu_si128((__m128i*)(targets[0] + to), _mm512_castsi512_si128(b));
    _mm_storeu_si128((__m128i*)(targets[1] + to), _mm512_extracti32x4_epi32(b, 1));
    _mm_storeu_si128((__m128i*)(targets[2] + to), _mm512_extracti32x4_epi32(b, 2));
    _mm_storeu_si128((__m128i*)(targets[3] + to), _mm512_extracti32x4_epi32(b, 3));
  }
}

static void horizontal(const uint8_t* const rows[ROWS_AT_ONCE], uint8_t* const targets[ROWS_AT_ONCE], const axis* a,
                       int32_t x0, int32_t n) {
  switch (a->pairs) { /* constant counts unroll */
    case 1: horizontal_pairs(rows, targets, a, x0, n, 1); break;
    case 2: horizontal_pairs(rows, targets, a, x0, n, 2); break;
    default: horizontal_pairs(rows, targets, a, x0, n, 0);
  }
}

static inline __attribute__((always_inline)) void vertical_pairs(const uint8_t* const* rows, int32_t pairs,
                                                                 const int32_t* split, uint8_t* target, size_t n) {
  const __m512i zero = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += 64) {
    __mmask64 m = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
    __m512i low[4], high[4];
    for (int k = 0; k < 4; k++) low[k] = _mm512_set1_epi32(WEIGHT_HALF), high[k] = zero;
    for (int32_t j = 0; j < pairs; j++) {
      __m512i a = _mm512_maskz_loadu_epi8(m, rows[2 * j] + i), b = _mm512_maskz_loadu_epi8(m, rows[2 * j + 1] + i);
      __m512i q0 = _mm512_set1_epi32(split[2 * j]), q1 = _mm512_set1_epi32(split[2 * j + 1]);
      __m512i l = _mm512_unpacklo_epi8(a, b), h = _mm512_unpackhi_epi8(a, b);
      __m512i p[4] = {_mm512_unpacklo_epi8(l, zero), _mm512_unpackhi_epi8(l, zero), _mm512_unpacklo_epi8(h, zero),
                      _mm512_unpackhi_epi8(h, zero)};
      for (int k = 0; k < 4; k++) {
        low[k] = _mm512_add_epi32(low[k], _mm512_madd_epi16(p[k], q0));
        high[k] = _mm512_add_epi32(high[k], _mm512_madd_epi16(p[k], q1));
      }
    }
    /* Unpacking and packing both stay within 128-bit quarters, so the bytes come back in order. */
    for (int k = 0; k < 4; k++)
      low[k] = _mm512_srai_epi32(_mm512_add_epi32(low[k], _mm512_slli_epi32(high[k], 15)), WEIGHT_BITS);
    _mm512_mask_storeu_epi8(
        target + i, m, _mm512_packus_epi16(_mm512_packs_epi32(low[0], low[1]), _mm512_packs_epi32(low[2], low[3])));
  }
}

static void vertical(const uint8_t* const* rows, int32_t pairs, const int32_t* split, uint8_t* target, size_t n) {
  switch (pairs) {
    case 1: vertical_pairs(rows, 1, split, target, n); break;
    case 2: vertical_pairs(rows, 2, split, target, n); break;
    default: vertical_pairs(rows, pairs, split, target, n);
  }
}

/* a/b correctly rounded for the inputs at hand (checked for all of them before it is used): one Newton step. */
static inline __m512 divide(__m512 a, __m512 b, __m512 inverse) {
  __m512 q = _mm512_mul_ps(a, inverse);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, b, a), inverse, q);
}

static void normalize(const uint8_t* row, int32_t n, const normalizer* norm, int flip, float* const planes[3]) {
  const __m512 v255 = _mm512_set1_ps(255.0f), inverse255 = _mm512_set1_ps(1.0f / 255.0f);
  const int8_t (*masks)[3][16] = norm->deinterleave[flip != 0];
  int32_t x = 0;
  for (; x + 16 <= n; x += 16) {
    const uint8_t* p = row + (size_t)x * 3;
    __m128i a = load(p), b = load(p + 16), c = load(p + 32);
    size_t to = (size_t)(flip ? n - 16 - x : x);
    for (int k = 0; k < 3; k++) {
      __m128i v = _mm_shuffle_epi8(a, load((const uint8_t*)masks[k][0]));
      v = _mm_or_si128(v, _mm_shuffle_epi8(b, load((const uint8_t*)masks[k][1])));
      v = _mm_or_si128(v, _mm_shuffle_epi8(c, load((const uint8_t*)masks[k][2])));
      __m512 f = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(v));
      f = _mm512_sub_ps(divide(f, v255, inverse255), _mm512_set1_ps(norm->mean[k]));
      _mm512_storeu_ps(planes[k] + to, divide(f, _mm512_set1_ps(norm->std[k]), _mm512_set1_ps(norm->inverse_std[k])));
    }
  }
  normalize_pixels(row, x, n, norm, flip, planes);
}

const kernels kernels_avx512 = {horizontal, vertical, normalize};
