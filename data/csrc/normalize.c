/* uint8 [h, w, 3] -> float32 [3, h, w], (v/255 - mean)/std. */
#include <math.h>
#include <string.h>

#include "image.h"

/* Fills the constants and finds out whether the vectorised arithmetic gives the table's bits. */
static void prepare(normalizer* norm, const kernels* k, const float mean[3], const float std[3]) {
  if (norm->checked == k && memcmp(norm->mean, mean, sizeof norm->mean) == 0 &&
      memcmp(norm->std, std, sizeof norm->std) == 0)
    return;
  for (int c = 0; c < 3; c++) {
    norm->mean[c] = mean[c], norm->std[c] = std[c], norm->inverse_std[c] = 1.0f / std[c];
    for (int v = 0; v < 256; v++) norm->table[c][v] = ((float)v / 255.0f - mean[c]) / std[c];
  }
  for (int f = 0; f < 2; f++)
    for (int c = 0; c < 3; c++)
      for (int s = 0; s < 3; s++)
        for (int i = 0; i < 16; i++) {
          int from = 3 * (f ? 15 - i : i) + c - 16 * s;
          norm->deinterleave[f][c][s][i] = from >= 0 && from < 16 ? (int8_t)from : -1;
        }
  uint8_t all[256 * 3];
  float result[3][256], *planes[3] = {result[0], result[1], result[2]};
  for (int i = 0; i < 256 * 3; i++) all[i] = (uint8_t)(i / 3);
  k->normalize(all, 256, norm, 0, planes);
  norm->exact = memcmp(result, norm->table, sizeof result) == 0;
  norm->checked = k;
}

normalize_row normalizer_row(normalizer* norm, const float mean[3], const float std[3]) {
  const kernels* k = kernels_now();
  prepare(norm, k, mean, std);
  return norm->exact ? k->normalize : kernels_c.normalize;
}

int32_t normalizer_check(const float mean[3], const float std[3], gospml_image_message* m) {
  for (int c = 0; c < 3; c++)
    if (!isfinite(mean[c]) || !isfinite(std[c]) || std[c] == 0)
      return fail(m, GOSPML_IMAGE_ARGUMENT, "cannot normalize channel %d with mean %g and standard deviation %g", c,
                  (double)mean[c], (double)std[c]);
  return GOSPML_IMAGE_OK;
}

int32_t normalize_picture(gospml_image_context* ctx, const uint8_t* pixels, int32_t width, int32_t height,
                          const float mean[3], const float std[3], int32_t flip, float* out, uint64_t out_size,
                          gospml_image_message* m) {
  if (width < 1 || height < 1)
    return fail(m, GOSPML_IMAGE_ARGUMENT, "cannot normalize a picture of %dx%d", width, height);
  uint64_t plane = (uint64_t)width * (uint64_t)height; /* below 2^62 */
  if (out_size % 12 || out_size / 12 != plane)
    return fail(m, GOSPML_IMAGE_ARGUMENT, "the result float32 [3, %d, %d] does not take %llu bytes", height, width,
                (unsigned long long)out_size);
  int32_t status = normalizer_check(mean, std, m);
  if (status) return status;
  normalize_row row = normalizer_row(&ctx->norm, mean, std);
  for (int32_t y = 0; y < height; y++) {
    size_t at = (size_t)y * (size_t)width;
    float* planes[3] = {out + at, out + plane + at, out + 2 * plane + at};
    row(pixels + at * 3, width, &ctx->norm, flip != 0, planes);
  }
  return GOSPML_IMAGE_OK;
}
