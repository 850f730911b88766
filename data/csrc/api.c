/* The table, contexts, buffers and messages. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "image.h"

int32_t fail(gospml_image_message* m, int32_t status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(m->text, sizeof m->text, format, args);
  va_end(args);
  return status;
}

uint8_t* buffer_need(buffer* b, size_t n) {
  if (n <= b->size && b->p) return b->p;
  buffer_free(b);
  size_t size = (n + n / 8 + 4095) & ~(size_t)4095; /* a little more: the next photo may be a little larger */
  b->p = aligned_alloc(64, size);
  b->size = b->p ? size : 0;
  return b->p;
}

void buffer_free(buffer* b) {
  free(b->p);
  *b = (buffer){0};
}

static gospml_image_context* context_new(void) { return calloc(1, sizeof(gospml_image_context)); }

static void context_free(gospml_image_context* ctx) {
  if (!ctx) return;
  buffer* all[] = {&ctx->picture, &ctx->cmyk, &ctx->ring, &ctx->rows, &ctx->padded, &ctx->line};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) buffer_free(all[i]);
  axis_free(&ctx->horizontal);
  axis_free(&ctx->vertical);
  free(ctx);
}

void context_trim(gospml_image_context* ctx) {
  const size_t keep = (size_t)32 << 20; /* a photo of 10 megapixels */
  buffer* all[] = {&ctx->picture, &ctx->cmyk, &ctx->ring, &ctx->padded};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->size > keep) buffer_free(all[i]);
}

static int32_t resize(gospml_image_context* ctx, const uint8_t* pixels, int32_t width, int32_t height,
                      const gospml_image_job* job, void* out, uint64_t out_size, gospml_image_message* m) {
  m->text[0] = 0;
  if (width < 1 || height < 1) return fail(m, GOSPML_IMAGE_ARGUMENT, "cannot resize a picture of %dx%d", width, height);
  int32_t status = job_check(job, width, height, out_size, m);
  if (status) return status;
  size_t stride = (size_t)width * 3;
  picture p = {pixels, width, height, stride, pixels + stride * (size_t)height};
  status = job_run(ctx, &p, job, out, m);
  context_trim(ctx);
  return status;
}

static int32_t jpeg_resize(gospml_image_context* ctx, const uint8_t* bytes, uint64_t n, const gospml_image_job* job,
                           void* out, uint64_t out_size, gospml_image_message* m) {
  m->text[0] = 0;
  picture p;
  int32_t status = jpeg_to_context(ctx, bytes, n, job->max_pixels, &p, m);
  if (!status) status = job_check(job, p.width, p.height, out_size, m);
  if (!status) status = job_run(ctx, &p, job, out, m);
  context_trim(ctx);
  return status;
}

static int32_t header(const uint8_t* bytes, uint64_t n, int32_t info[3], gospml_image_message* m) {
  m->text[0] = 0;
  return jpeg_header(bytes, n, info, m);
}

static int32_t decode(gospml_image_context* ctx, const uint8_t* bytes, uint64_t n, int64_t max_pixels, uint8_t* out,
                      uint64_t out_size, gospml_image_message* m) {
  m->text[0] = 0;
  int32_t status = jpeg_decode(ctx, bytes, n, max_pixels, out, out_size, m);
  context_trim(ctx);
  return status;
}

static int32_t normalize(gospml_image_context* ctx, const uint8_t* pixels, int32_t width, int32_t height,
                         const float mean[3], const float std[3], int32_t flip, float* out, uint64_t out_size,
                         gospml_image_message* m) {
  m->text[0] = 0;
  return normalize_picture(ctx, pixels, width, height, mean, std, flip, out, out_size, m);
}

static const gospml_image_api_table table = {
    .abi = GOSPML_IMAGE_ABI,
    .size = sizeof table,
    .context_new = context_new,
    .context_free = context_free,
    .jpeg_header = header,
    .jpeg_decode = decode,
    .jpeg_resize = jpeg_resize,
    .resize = resize,
    .normalize = normalize,
    .coefficients = axis_coefficients,
    .cpu = kernels_level,
    .set_cpu = kernels_set_level,
};

const gospml_image_api_table* gospml_image_api(uint32_t wanted) {
  (void)wanted; /* the only version there is */
  return &table;
}
