/* Plain C kernels, the choice of kernels, and nothing that needs more than the base instruction set. */
#include <stdatomic.h>

#include "gospml_image.h"
#include "kernels.h"

static inline uint8_t clip8(int32_t sum) {
  int32_t v = sum >> WEIGHT_BITS;
  return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

/* The weight of tap j: low and high halves put together again. */
static inline int32_t weight(const int32_t* split, int32_t j) {
  const int32_t* s = split + (j & ~1);
  int shift = (j & 1) * 16;
  int32_t low = (int32_t)((uint32_t)s[0] >> shift & 0xffff), high = (int16_t)((uint32_t)s[1] >> shift);
  return high * (1 << 15) + low;
}

static void horizontal(const uint8_t* const rows[ROWS_AT_ONCE], uint8_t* const targets[ROWS_AT_ONCE], const axis* a,
                       int32_t x0, int32_t n) {
  for (int32_t x = 0; x < n; x++) {
    const int32_t* split = a->split + (int64_t)(x0 + x) * a->pairs * 2;
    int32_t taps = a->taps[x0 + x];
    size_t at = (size_t)a->first[x0 + x] * 3;
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
      const uint8_t* p = rows[r] + at;
      int32_t s0 = WEIGHT_HALF, s1 = WEIGHT_HALF, s2 = WEIGHT_HALF;
      for (int32_t j = 0; j < taps; j++, p += 3) {
        int32_t q = weight(split, j);
        s0 += p[0] * q, s1 += p[1] * q, s2 += p[2] * q;
      }
      uint8_t* t = targets[r] + (size_t)x * 3;
      t[0] = clip8(s0), t[1] = clip8(s1), t[2] = clip8(s2);
    }
  }
}

void vertical_bytes(const uint8_t* const* rows, int32_t pairs, const int32_t* split, uint8_t* target, size_t from,
                    size_t n) {
  enum { BLOCK = 256 };
  int32_t sums[BLOCK];
  for (size_t i = from; i < n; i += BLOCK) {
    size_t m = n - i < BLOCK ? n - i : BLOCK;
    for (size_t b = 0; b < m; b++) sums[b] = WEIGHT_HALF;
    for (int32_t j = 0; j < 2 * pairs; j++) {
      int32_t q = weight(split, j);
      if (q == 0) continue;
      const uint8_t* p = rows[j] + i;
      for (size_t b = 0; b < m; b++) sums[b] += p[b] * q;
    }
    for (size_t b = 0; b < m; b++) target[i + b] = clip8(sums[b]);
  }
}

static void vertical(const uint8_t* const* rows, int32_t pairs, const int32_t* split, uint8_t* target, size_t n) {
  vertical_bytes(rows, pairs, split, target, 0, n);
}

void normalize_pixels(const uint8_t* row, int32_t from, int32_t n, const normalizer* norm, int flip,
                      float* const planes[3]) {
  for (int c = 0; c < 3; c++) {
    const float* table = norm->table[c];
    float* plane = planes[c];
    const uint8_t* p = row + c;
    if (flip)
      for (int32_t x = from; x < n; x++) plane[n - 1 - x] = table[p[(size_t)x * 3]];
    else
      for (int32_t x = from; x < n; x++) plane[x] = table[p[(size_t)x * 3]];
  }
}

static void normalize(const uint8_t* row, int32_t n, const normalizer* norm, int flip, float* const planes[3]) {
  normalize_pixels(row, 0, n, norm, flip, planes);
}

const kernels kernels_c = {horizontal, vertical, normalize};

static _Atomic int32_t level = -1;

static int32_t best_level(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return GOSPML_IMAGE_CPU_SSE;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return GOSPML_IMAGE_CPU_AVX2;
  return GOSPML_IMAGE_CPU_AVX512;
}

int32_t kernels_set_level(int32_t wanted) {
  int32_t best = best_level();
  if (wanted < GOSPML_IMAGE_CPU_SSE) wanted = GOSPML_IMAGE_CPU_SSE;
  atomic_store(&level, wanted < best ? wanted : best);
  return atomic_load(&level);
}

int32_t kernels_level(void) {
  int32_t l = atomic_load(&level);
  return l < 0 ? kernels_set_level(GOSPML_IMAGE_CPU_AVX512) : l;
}

const kernels* kernels_now(void) {
  switch (kernels_level()) {
    case GOSPML_IMAGE_CPU_AVX512: return &kernels_avx512;
    case GOSPML_IMAGE_CPU_AVX2: return &kernels_avx2;
    default: return &kernels_c;
  }
}
