/* AVX2 + FMA kernels. Compiled with those flags: include nothing here that other files could share code with. */
#include <immintrin.h>

#include "kernels.h"

/* 16 bytes RGBRGBRGBRGB.... -> 16-bit pairs (pixel 0, pixel 1) of R, G, B, then zeros; and the same of pixels 2, 3. */
#define PAIR_01 0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1
#define PAIR_23 6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1
/* Four RGBx pixels of four bytes -> twelve bytes RGB. */
#define DROP_X 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1

static inline __m256i load2(const uint8_t* a, const uint8_t* b) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i*)a)),
                                 _mm_loadu_si128((const __m128i*)b), 1);
}

/* One output pixel of two rows: the eight 32-bit channel values, not yet clipped. */
static inline __m256i pixel2(const uint8_t* a, const uint8_t* b, int32_t pairs, const int32_t* split, __m256i m01,
                             __m256i m23) {
  __m256i low = _mm256_set1_epi32(WEIGHT_HALF), high = _mm256_setzero_si256();
  int32_t j = 0;
  for (; j + 1 < pairs; j += 2, split += 4, a += 12, b += 12) {
    __m256i v = load2(a, b), p = _mm256_shuffle_epi8(v, m01), q = _mm256_shuffle_epi8(v, m23);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(p, _mm256_set1_epi32(split[0])));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(p, _mm256_set1_epi32(split[1])));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(q, _mm256_set1_epi32(split[2])));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(q, _mm256_set1_epi32(split[3])));
  }
  if (j < pairs) {
    __m256i p = _mm256_shuffle_epi8(load2(a, b), m01);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(p, _mm256_set1_epi32(split[0])));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(p, _mm256_set1_epi32(split[1])));
  }
  return _mm256_srai_epi32(_mm256_add_epi32(low, _mm256_slli_epi32(high, 15)), WEIGHT_BITS);
}

static inline __attribute__((always_inline)) void horizontal_pairs(const uint8_t* const rows[ROWS_AT_ONCE],
                                                                   uint8_t* const targets[ROWS_AT_ONCE], const axis* a,
                                                                   int32_t x0, int32_t n, int32_t fixed) {
  const __m256i m01 = _mm256_setr_epi8(PAIR_01, PAIR_01), m23 = _mm256_setr_epi8(PAIR_23, PAIR_23);
  const __m256i drop = _mm256_setr_epi8(DROP_X, DROP_X);
  const int32_t *first = a->first + x0, *taps = a->taps + x0, *split = a->split + (int64_t)x0 * a->pairs * 2;
  for (int32_t x = 0; x < n; x += 4) {
    __m256i v[2][4];
    for (int k = 0; k < 4; k++) {
      int32_t i = x + k < n ? x + k : n - 1; /* past the end: computed twice, written into the slack */
      size_t at = (size_t)first[i] * 3;
      const int32_t* s = split + (int64_t)i * a->pairs * 2;
      int32_t pairs = fixed ? fixed : (taps[i] + 1) / 2; /* no reading far behind the row for the sake of zeros */
      v[0][k] = pixel2(rows[0] + at, rows[1] + at, pairs, s, m01, m23);
      v[1][k] = pixel2(rows[2] + at, rows[3] + at, pairs, s, m01, m23);
    }
    for (int h = 0; h < 2; h++) {
      __m256i b = _mm256_packus_epi16(_mm256_packs_epi32(v[h][0], v[h][1]), _mm256_packs_epi32(v[h][2], v[h][3]));
      b = _mm256_shuffle_epi8(b, drop);
      _mm_storeu_si128((__m128i*)(targets[2 * h] + (size_t)x * 3), _mm256_castsi256_si128(b));
      _mm_storeu_si128((__m128i*)(targets[2 * h + 1] + (size_t)x * 3), _mm256_extracti128_si256(b, 1));
    }
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
  const __m256i zero = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i low[4], high[4];
    for (int k = 0; k < 4; k++) low[k] = _mm256_set1_epi32(WEIGHT_HALF), high[k] = zero;
    for (int32_t j = 0; j < pairs; j++) {
      __m256i a = _mm256_loadu_si256((const __m256i*)(rows[2 * j] + i));
      __m256i b = _mm256_loadu_si256((const __m256i*)(rows[2 * j + 1] + i));
      __m256i q0 = _mm256_set1_epi32(split[2 * j]), q1 = _mm256_set1_epi32(split[2 * j + 1]);
      __m256i l = _mm256_unpacklo_epi8(a, b), h = _mm256_unpackhi_epi8(a, b);
      __m256i p[4] = {_mm256_unpacklo_epi8(l, zero), _mm256_unpackhi_epi8(l, zero), _mm256_unpacklo_epi8(h, zero),
                      _mm256_unpackhi_epi8(h, zero)};
      for (int k = 0; k < 4; k++) {
        low[k] = _mm256_add_epi32(low[k], _mm256_madd_epi16(p[k], q0));
        high[k] = _mm256_add_epi32(high[k], _mm256_madd_epi16(p[k], q1));
      }
    }
    /* Unpacking and packing both stay within 128-bit halves, so the bytes come back in order. */
    for (int k = 0; k < 4; k++)
      low[k] = _mm256_srai_epi32(_mm256_add_epi32(low[k], _mm256_slli_epi32(high[k], 15)), WEIGHT_BITS);
    _mm256_storeu_si256((__m256i*)(target + i),
                        _mm256_packus_epi16(_mm256_packs_epi32(low[0], low[1]), _mm256_packs_epi32(low[2], low[3])));
  }
  vertical_bytes(rows, pairs, split, target, i, n);
}

static void vertical(const uint8_t* const* rows, int32_t pairs, const int32_t* split, uint8_t* target, size_t n) {
  switch (pairs) {
    case 1: vertical_pairs(rows, 1, split, target, n); break;
    case 2: vertical_pairs(rows, 2, split, target, n); break;
    default: vertical_pairs(rows, pairs, split, target, n);
  }
}

/* a/b correctly rounded for the inputs at hand (checked for all of them before it is used): one Newton step. */
static inline __m256 divide(__m256 a, __m256 b, __m256 inverse) {
  __m256 q = _mm256_mul_ps(a, inverse);
  return _mm256_fmadd_ps(_mm256_fnmadd_ps(q, b, a), inverse, q);
}

/* 48 bytes RGB... in three registers -> the 16 bytes of channel c. */
static inline __m128i channel(__m128i a, __m128i b, __m128i c, __m128i ma, __m128i mb, __m128i mc) {
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, ma), _mm_shuffle_epi8(b, mb)), _mm_shuffle_epi8(c, mc));
}

static void normalize(const uint8_t* row, int32_t n, const normalizer* norm, int flip, float* const planes[3]) {
  const __m256 v255 = _mm256_set1_ps(255.0f), inverse255 = _mm256_set1_ps(1.0f / 255.0f);
  const int8_t (*masks)[3][16] = norm->deinterleave[flip != 0];
  int32_t x = 0;
  for (; x + 16 <= n; x += 16) {
    const __m128i* p = (const __m128i*)(row + (size_t)x * 3);
    __m128i a = _mm_loadu_si128(p), b = _mm_loadu_si128(p + 1), c = _mm_loadu_si128(p + 2);
    size_t to = (size_t)(flip ? n - 16 - x : x);
    for (int k = 0; k < 3; k++) {
      __m128i v = channel(a, b, c, _mm_loadu_si128((const __m128i*)masks[k][0]),
                          _mm_loadu_si128((const __m128i*)masks[k][1]), _mm_loadu_si128((const __m128i*)masks[k][2]));
      __m256 mean = _mm256_set1_ps(norm->mean[k]), std = _mm256_set1_ps(norm->std[k]);
      __m256 inverse = _mm256_set1_ps(norm->inverse_std[k]);
      __m256 f0 = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v));
      __m256 f1 = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)));
      f0 = divide(_mm256_sub_ps(divide(f0, v255, inverse255), mean), std, inverse);
      f1 = divide(_mm256_sub_ps(divide(f1, v255, inverse255), mean), std, inverse);
      _mm256_storeu_ps(planes[k] + to, f0);
      _mm256_storeu_ps(planes[k] + to + 8, f1);
    }
  }
  normalize_pixels(row, x, n, norm, flip, planes);
}

const kernels kernels_avx2 = {horizontal, vertical, normalize};
