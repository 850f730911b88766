/* Pillow's precompute_coeffs and normalize_coeffs_8bpc (src/libImaging/Resample.c), in the same order of operations,
 * and PyTorch's weights for uint8 and float32 tensors (aten/src/ATen/native/cpu/UpSampleKernel.cpp). */
#include "axis.h"

#include <math.h>
#include <stdlib.h>

#include "gospml_image.h"

static double bilinear(double x) {
  x = fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

/* PyTorch writes the outer part of the kernel in another order. */
static double bicubic_torch(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0.0;
}

static int is_cubic(int32_t filter) { return filter & 1; }
static int is_torchvision(int32_t filter) {
  return filter == GOSPML_IMAGE_TORCHVISION_BILINEAR || filter == GOSPML_IMAGE_TORCHVISION_BICUBIC;
}

typedef struct kernel {
  double (*f)(double);
  double scale, filter_scale, support;
  int32_t in;
} kernel;

static kernel kernel_of(int32_t in, int32_t out, int32_t filter) {
  kernel k = {!is_cubic(filter)        ? bilinear
              : is_torchvision(filter) ? bicubic_torch
                                       : bicubic,
              (double)in / out, 0, 0, in};
  k.filter_scale = k.scale < 1.0 ? 1.0 : k.scale;
  k.support = (is_cubic(filter) ? 2.0 : 1.0) * k.filter_scale;
  return k;
}

/* Most taps any output can have. */
static int64_t kernel_size(const kernel* k) {
  int64_t n = (int64_t)ceil(k->support) * 2 + 1;
  return n < k->in ? n : k->in;
}

static double kernel_centre(const kernel* k, int32_t i) { return (i + 0.5) * k->scale; }

/* First input of output i; returns how many. */
static int32_t kernel_bounds(const kernel* k, int32_t i, int32_t* first) {
  double centre = kernel_centre(k, i);
  int32_t lo = (int32_t)(centre - k->support + 0.5), hi = (int32_t)(centre + k->support + 0.5);
  if (lo < 0) lo = 0;
  if (hi > k->in) hi = k->in;
  *first = lo;
  return hi - lo;
}

/* Weights of output i, whose inputs are lo .. lo+n-1. */
static void kernel_weights(const kernel* k, int32_t i, int32_t lo, int32_t n, double* w) {
  double centre = kernel_centre(k, i), sum = 0, inverse = 1.0 / k->filter_scale;
  for (int32_t j = 0; j < n; j++) {
    w[j] = k->f((j + lo - centre + 0.5) * inverse);
    sum += w[j];
  }
  if (sum != 0.0)
    for (int32_t j = 0; j < n; j++) w[j] /= sum;
}

static int32_t fixed_point(double w, int bits) {
  return (int32_t)(w < 0 ? w * (1 << bits) - 0.5 : w * (1 << bits) + 0.5) * (1 << (WEIGHT_BITS - bits));
}

/* How many bits a weight keeps. PyTorch's uint8 tensors: as many as let the largest weight fit into 16 bits; the rest
 * is zero here, so that the sums are those of its narrower numbers. */
static int weight_bits(const kernel* k, int32_t out, int32_t filter, double* w) {
  if (!is_torchvision(filter)) return WEIGHT_BITS;
  double most = 0;
  for (int32_t i = 0; i < out; i++) {
    int32_t first, n = kernel_bounds(k, i, &first);
    kernel_weights(k, i, first, n, w);
    for (int32_t j = 0; j < n; j++)
      if (w[j] > most) most = w[j];
  }
  int bits = 0;
  while (bits < WEIGHT_BITS && (int)(0.5 + most * (1 << (bits + 1))) < 1 << 15) bits++;
  return bits;
}

int32_t axis_coefficients(int32_t in, int32_t out, int32_t filter, int32_t* first, int32_t* taps, int32_t* weights) {
  if (in < 1 || out < 1 || filter < GOSPML_IMAGE_BILINEAR || filter > GOSPML_IMAGE_TORCHVISION_BICUBIC) return 0;
  kernel k = kernel_of(in, out, filter);
  int32_t stride = (int32_t)kernel_size(&k);
  if (!weights) return stride;
  double* w = malloc(sizeof(double) * stride);
  if (!w) return 0;
  int bits = weight_bits(&k, out, filter, w);
  for (int32_t i = 0; i < out; i++) {
    taps[i] = kernel_bounds(&k, i, &first[i]);
    kernel_weights(&k, i, first[i], taps[i], w);
    for (int32_t j = 0; j < stride; j++) weights[(int64_t)i * stride + j] = j < taps[i] ? fixed_point(w[j], bits) : 0;
  }
  free(w);
  return stride;
}

void axis_free(axis* a) {
  free(a->first);
  free(a->taps);
  free(a->split);
  *a = (axis){0};
}

int axis_prepare(axis* a, int32_t in, int32_t out, int32_t filter, int mirrored) {
  if (a->out == out && a->in == in && a->filter == filter && a->mirrored == mirrored) return 0;
  axis_free(a);
  kernel k = kernel_of(in, out, filter);
  a->first = malloc(sizeof(int32_t) * out);
  a->taps = malloc(sizeof(int32_t) * out);
  if (!a->first || !a->taps) return axis_free(a), -1;
  for (int32_t i = 0; i < out; i++) {
    a->taps[i] = kernel_bounds(&k, mirrored ? out - 1 - i : i, &a->first[i]);
    if (a->taps[i] > a->most_taps) a->most_taps = a->taps[i];
  }
  int64_t pairs = (a->most_taps + 1) / 2;
  double* w = malloc(sizeof(double) * a->most_taps);
  a->split = calloc((size_t)out * pairs, 2 * sizeof(int32_t));
  if (!w || !a->split) {
    free(w);
    return axis_free(a), -1;
  }
  int bits = weight_bits(&k, out, filter, w);
  for (int32_t i = 0; i < out; i++) {
    int32_t *split = a->split + (int64_t)i * pairs * 2, n = a->taps[i];
    kernel_weights(&k, mirrored ? out - 1 - i : i, a->first[i], n, w);
    for (int32_t j = 0; j < n; j += 2) {
      uint32_t q0 = (uint32_t)fixed_point(w[j], bits), q1 = j + 1 < n ? (uint32_t)fixed_point(w[j + 1], bits) : 0;
      split[j] = (int32_t)((q0 & 0x7fff) | (q1 & 0x7fff) << 16);
      split[j + 1] = (int32_t)(((uint32_t)((int32_t)q0 >> 15) & 0xffff) | (uint32_t)((int32_t)q1 >> 15) << 16);
    }
  }
  free(w);
  a->in = in, a->out = out, a->filter = filter, a->mirrored = mirrored, a->pairs = (int32_t)pairs;
  return 0;
}
