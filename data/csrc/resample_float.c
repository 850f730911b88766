/* Resizing in float32 as PyTorch does it for float tensors with antialias: horizontal pass, then vertical pass, each
 * sum in the order of its taps, rounded half to even at the end. PyTorch's build for AVX2 and above (and for ARM) takes
 * the taps after the first in fours, which it multiplies and then adds, and the one to three that are left with fused
 * multiply-adds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

/* The taps of one axis. */
typedef struct taps {
  int32_t *first, *n; /* [out] */
  float* weights;     /* [out, most] */
  int32_t most;
} taps;

static float cubic(float x) {
  const float a = -0.5f;
  x = fabsf(x);
  if (x < 1) return fmaf(fmaf(a + 2, x, -(a + 3)) * x, x, 1);
  if (x < 2) return fmaf(fmaf(fmaf(a, x, -5 * a), x, 8 * a), x, -4 * a);
  return 0;
}

static float linear(float x) {
  x = fabsf(x);
  return x < 1 ? 1 - x : 0;
}

static void taps_free(taps* t) {
  free(t->first);
  free(t->n);
  free(t->weights);
  *t = (taps){0};
}

static int taps_make(taps* t, int32_t in, int32_t out, int cubic_kernel) {
  float scale = (float)in / (float)out;
  float radius = cubic_kernel ? 2 : 1, support = scale >= 1 ? radius * scale : radius;
  float inverse = scale >= 1 ? (float)(1.0 / scale) : 1;
  *t = (taps){malloc(sizeof(int32_t) * out), malloc(sizeof(int32_t) * out), NULL, (int32_t)ceilf(support) * 2 + 1};
  t->weights = calloc((size_t)out * t->most, sizeof(float));
  if (!t->first || !t->n || !t->weights) return taps_free(t), -1;
  for (int32_t i = 0; i < out; i++) {
    float centre = (float)(scale * (i + 0.5)), sum = 0, *w = t->weights + (size_t)i * t->most;
    int64_t lo = (int64_t)(centre - support + 0.5), hi = (int64_t)(centre + support + 0.5);
    if (lo < 0) lo = 0;
    if (hi > in) hi = in;
    int64_t n = hi - lo < 0 ? 0 : hi - lo > t->most ? t->most : hi - lo;
    for (int64_t j = 0; j < n; j++) {
      float x = (float)(((float)(j + lo) - centre + 0.5) * inverse);
      w[j] = cubic_kernel ? cubic(x) : linear(x);
      sum += w[j];
    }
    if (sum != 0)
      for (int64_t j = 0; j < n; j++) w[j] /= sum;
    t->first[i] = (int32_t)lo, t->n[i] = (int32_t)n;
  }
  return 0;
}

#if defined(__x86_64__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST
#endif

/* Columns x0 .. x0+n-1 of a row; t NULL: as they are. */
FAST static void float_row(const uint8_t* row, const taps* t, int32_t x0, int32_t n, float* out) {
  for (int32_t x = 0; x < n; x++, out += 3) {
    if (!t) {
      const uint8_t* p = row + (size_t)(x0 + x) * 3;
      out[0] = p[0], out[1] = p[1], out[2] = p[2];
      continue;
    }
    const float* w = t->weights + (size_t)(x0 + x) * t->most;
    const uint8_t* p = row + (size_t)t->first[x0 + x] * 3;
    float a = p[0] * w[0], b = p[1] * w[0], c = p[2] * w[0];
    int32_t taps = t->n[x0 + x], fours = (taps - 1) & ~3, j = 1;
    for (; j <= fours; j++) {
      p += 3;
      a += p[0] * w[j], b += p[1] * w[j], c += p[2] * w[j];
    }
    for (; j < taps; j++) {
      p += 3;
      a = fmaf(p[0], w[j], a), b = fmaf(p[1], w[j], b), c = fmaf(p[2], w[j], c);
    }
    out[0] = a, out[1] = b, out[2] = c;
  }
}

/* sum[i] = rows[0][i]*w[0], then += rows[j][i]*w[j]. */
FAST static void float_column(const float* rows, size_t stride, const float* w, int32_t n, size_t size, float* sum) {
  for (size_t i = 0; i < size; i++) sum[i] = rows[i] * w[0];
  int32_t fours = (n - 1) & ~3;
  for (int32_t j = 1; j <= fours; j++) {
    const float* r = rows + stride * (size_t)j;
    for (size_t i = 0; i < size; i++) sum[i] += r[i] * w[j];
  }
  for (int32_t j = fours + 1; j < n; j++) {
    const float* r = rows + stride * (size_t)j;
    for (size_t i = 0; i < size; i++) sum[i] = fmaf(r[i], w[j], sum[i]);
  }
}

static uint8_t round8(float v) {
  v = nearbyintf(v); /* half to even */
  return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

int32_t float_run(gospml_image_context* ctx, const picture* src, const gospml_image_job* job,
                  const gospml_image_rect* w, void* out, gospml_image_message* m) {
  int cubic_kernel = job->filter == GOSPML_IMAGE_FLOAT_BICUBIC;
  int32_t ow = w->x1 - w->x0, oh = w->y1 - w->y0;
  /* The window counts in the mirrored picture. */
  int32_t x0 = job->flip ? job->width - w->x1 : w->x0;
  taps h = {0}, v = {0};
  int horizontal = src->width != job->width, vertical = src->height != job->height;
  size_t stride = (size_t)ow * 3;
  int32_t from = w->y0, to = w->y1;
  uint8_t* line = NULL;
  float *rows = NULL, *sum = NULL;
  if (!(horizontal && taps_make(&h, src->width, job->width, cubic_kernel)) &&
      !(vertical && taps_make(&v, src->height, job->height, cubic_kernel))) {
    if (vertical) from = v.first[w->y0], to = v.first[w->y1 - 1] + v.n[w->y1 - 1];
    rows = (float*)buffer_need(&ctx->ring, stride * (size_t)(to - from) * sizeof(float));
    sum = (float*)buffer_need(&ctx->padded, stride * sizeof(float));
    line = buffer_need(&ctx->line, stride + SLACK);
  }
  int32_t status = GOSPML_IMAGE_OK;
  if (!rows || !sum || !line) {
    status = fail(m, GOSPML_IMAGE_MEMORY, "out of memory for resizing %dx%d to %dx%d", src->width, src->height,
                  job->width, job->height);
  } else {
    normalize_row normalized = job->normalize ? normalizer_row(&ctx->norm, job->mean, job->std) : NULL;
    sink s = {ow, (size_t)ow * (size_t)oh, normalized, &ctx->norm, line, out};
    for (int32_t y = from; y < to; y++)
      float_row(src->pixels + src->stride * (size_t)y, horizontal ? &h : NULL, x0, ow,
                rows + stride * (size_t)(y - from));
    for (int32_t y = 0; y < oh; y++) {
      int32_t at = w->y0 + y;
      const float* row = rows + stride * (size_t)((vertical ? v.first[at] : at) - from);
      if (vertical) {
        float_column(row, stride, v.weights + (size_t)at * v.most, v.n[at], stride, sum);
        row = sum;
      }
      uint8_t* target = sink_target(&s, y);
      for (int32_t x = 0; x < ow; x++)
        for (int c = 0; c < 3; c++) target[(job->flip ? ow - 1 - x : x) * 3 + c] = round8(row[x * 3 + c]);
      sink_row(&s, y, target);
    }
  }
  taps_free(&h);
  taps_free(&v);
  return status;
}
