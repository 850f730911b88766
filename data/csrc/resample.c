/* Jobs: crop, two-pass resize, window, flip, layout. The rows between the passes live in a buffer just long enough for
 * the second pass, so they stay in the processor's cache, and only rows that are needed are computed. */
#include <stdlib.h>
#include <string.h>

#include "image.h"

static int rect_empty(const gospml_image_rect* r) { return !r->x0 && !r->y0 && !r->x1 && !r->y1; }

static gospml_image_rect rect_or(const gospml_image_rect* r, int32_t width, int32_t height) {
  return rect_empty(r) ? (gospml_image_rect){0, 0, width, height} : *r;
}

static int rect_inside(const gospml_image_rect* r, int32_t width, int32_t height) {
  return r->x0 >= 0 && r->y0 >= 0 && r->x0 < r->x1 && r->y0 < r->y1 && r->x1 <= width && r->y1 <= height;
}

int32_t job_check(const gospml_image_job* job, int32_t width, int32_t height, uint64_t out_size,
                  gospml_image_message* m) {
  const int32_t limit = 1 << 20; /* keeps weight tables small; far above any use */
  if (job->width < 1 || job->height < 1 || job->width > limit || job->height > limit)
    return fail(m, GOSPML_IMAGE_ARGUMENT, "cannot resize to %dx%d", job->width, job->height);
  if (job->filter < GOSPML_IMAGE_BILINEAR || job->filter > GOSPML_IMAGE_FLOAT_BICUBIC)
    return fail(m, GOSPML_IMAGE_ARGUMENT, "filter %d is unknown", job->filter);
  gospml_image_rect s = rect_or(&job->source, width, height), w = rect_or(&job->window, job->width, job->height);
  if (!rect_inside(&s, width, height))
    return fail(m, GOSPML_IMAGE_ARGUMENT, "the rectangle (%d,%d)-(%d,%d) is not inside the picture of %dx%d", s.x0,
                s.y0, s.x1, s.y1, width, height);
  if (!rect_inside(&w, job->width, job->height))
    return fail(m, GOSPML_IMAGE_ARGUMENT, "the window (%d,%d)-(%d,%d) is not inside the result of %dx%d", w.x0, w.y0,
                w.x1, w.y1, job->width, job->height);
  uint64_t need = (uint64_t)(w.x1 - w.x0) * (uint64_t)(w.y1 - w.y0) * (job->normalize ? 12 : 3);
  if (out_size != need)
    return fail(m, GOSPML_IMAGE_ARGUMENT, "the result of %dx%d takes %llu bytes, not %llu", w.x1 - w.x0, w.y1 - w.y0,
                (unsigned long long)need, (unsigned long long)out_size);
  return job->normalize ? normalizer_check(job->mean, job->std, m) : GOSPML_IMAGE_OK;
}

/* The horizontal pass of one picture into the ring. */
typedef struct feed {
  const kernels* k;
  const axis* axis; /* NULL: the rows of the picture are taken as they are */
  const picture* src;
  int32_t x0, n;   /* columns of the result */
  uint8_t* ring;   /* [length, stride] */
  size_t stride;
  int32_t length, next; /* rows in the ring; the first row not yet computed */
  uint8_t* padded; /* room for ROWS_AT_ONCE copies of rows with SLACK */
} feed;

static const uint8_t* feed_row(const feed* f, int32_t y) {
  return f->axis ? f->ring + f->stride * (size_t)(y % f->length)
                 : f->src->pixels + f->src->stride * (size_t)y + (size_t)f->x0 * 3;
}

/* Makes rows from..to-1 available. */
static void feed_rows(feed* f, int32_t from, int32_t to) {
  if (!f->axis) return;
  const picture* src = f->src;
  size_t row_size = (size_t)src->width * 3;
  if (f->next < from) f->next = from;
  for (; f->next < to; f->next += ROWS_AT_ONCE) {
    const uint8_t* rows[ROWS_AT_ONCE];
    uint8_t* targets[ROWS_AT_ONCE];
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
      int32_t y = f->next + i;
      if (y >= src->height) { /* the last group may be short: the same row again, into the spare row of the ring */
        rows[i] = rows[0], targets[i] = f->ring + f->stride * (size_t)f->length;
        continue;
      }
      rows[i] = src->pixels + src->stride * (size_t)y;
      targets[i] = f->ring + f->stride * (size_t)(y % f->length);
      if ((size_t)(src->end - rows[i]) < row_size + SLACK) {
        uint8_t* copy = f->padded + (size_t)i * (row_size + SLACK);
        memcpy(copy, rows[i], row_size);
        rows[i] = copy;
      }
    }
    f->k->horizontal(rows, targets, f->axis, f->x0, f->n);
  }
}

static size_t row_stride(int32_t width) { return ((size_t)width * 3 + SLACK + 63) & ~(size_t)63; }

/* Where row y may be written in place: no more than width*3 bytes. */
uint8_t* sink_target(const sink* s, int32_t y) {
  return s->normalized ? s->line : (uint8_t*)s->out + (size_t)s->width * 3 * (size_t)y;
}

void sink_row(const sink* s, int32_t y, const uint8_t* row) {
  if (s->normalized) {
    float* first = (float*)s->out + (size_t)y * (size_t)s->width;
    float* planes[3] = {first, first + s->plane, first + 2 * s->plane};
    s->normalized(row, s->width, s->norm, 0, planes);
  } else if (row != sink_target(s, y)) {
    memcpy(sink_target(s, y), row, (size_t)s->width * 3);
  }
}

/* Pillow's order of the passes since version 13 (before, always the horizontal one first): vertical first if the height
 * shrinks by more than twice the pixels that the width shrinks by. Rounding between the passes makes it visible. */
static int vertical_first(const picture* src, const gospml_image_job* job) {
  int64_t dy = (int64_t)src->height - job->height, dx = (int64_t)src->width - job->width;
  return job->filter <= GOSPML_IMAGE_BICUBIC && dy > 0 && dy > 2 * dx;
}

/* The rows that output row y of the vertical pass reads: pointers into rows, for whole pairs of taps. */
static int32_t vertical_rows(const axis* v, int32_t at, const uint8_t** rows, const feed* f) {
  int32_t taps = v->taps[at], pairs = (taps + 1) / 2;
  for (int32_t j = 0; j < 2 * pairs; j++) rows[j] = feed_row(f, v->first[at] + (j < taps ? j : 0));
  return pairs;
}

static const int32_t* vertical_split(const axis* v, int32_t at) { return v->split + (int64_t)at * v->pairs * 2; }

/* Horizontal pass, then vertical pass; either may be absent. */
static void run_horizontal_first(feed* f, const axis* v, int32_t y0, int32_t height, const uint8_t** rows,
                                 const sink* s) {
  for (int32_t y = 0; y < height; y++) {
    int32_t at = y0 + y;
    if (!v) {
      feed_rows(f, at, at + 1);
      sink_row(s, y, feed_row(f, at));
      continue;
    }
    feed_rows(f, v->first[at], v->first[at] + v->taps[at]);
    int32_t pairs = vertical_rows(v, at, rows, f);
    uint8_t* target = sink_target(s, y);
    f->k->vertical(rows, pairs, vertical_split(v, at), target, (size_t)f->n * 3);
    sink_row(s, y, target);
  }
}

/* Vertical pass over whole rows of the picture into the ring, four at a time, then the horizontal pass into padded. The
 * feed has no axis and begins at column 0; x0 is the first column of the result. */
static void run_vertical_first(const feed* f, const axis* h, const axis* v, int32_t x0, int32_t y0, int32_t height,
                               const uint8_t** rows, const sink* s) {
  size_t row_size = (size_t)f->src->width * 3;
  for (int32_t y = 0; y < height; y += ROWS_AT_ONCE) {
    const uint8_t* sources[ROWS_AT_ONCE];
    uint8_t* targets[ROWS_AT_ONCE];
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
      uint8_t* row = f->ring + (size_t)i * f->stride;
      sources[i] = row, targets[i] = f->padded + (size_t)i * row_stride(s->width);
      if (y + i >= height) continue; /* rows that nobody reads */
      int32_t pairs = vertical_rows(v, y0 + y + i, rows, f);
      f->k->vertical(rows, pairs, vertical_split(v, y0 + y + i), row, row_size);
    }
    f->k->horizontal(sources, targets, h, x0, s->width);
    for (int i = 0; i < ROWS_AT_ONCE && y + i < height; i++) sink_row(s, y + i, targets[i]);
  }
}

int32_t job_run(gospml_image_context* ctx, const picture* whole, const gospml_image_job* job, void* out,
                gospml_image_message* m) {
  gospml_image_rect s = rect_or(&job->source, whole->width, whole->height);
  gospml_image_rect w = rect_or(&job->window, job->width, job->height);
  picture src = {whole->pixels + whole->stride * (size_t)s.y0 + (size_t)s.x0 * 3, s.x1 - s.x0, s.y1 - s.y0,
                 whole->stride, whole->end};
  int32_t ow = w.x1 - w.x0, oh = w.y1 - w.y0;
  if (job->filter >= GOSPML_IMAGE_FLOAT_BILINEAR) return float_run(ctx, &src, job, &w, out, m);
  /* A flip is the horizontal pass with mirrored weights, also where the width stays (then each weight is 1). */
  const axis* h = src.width != job->width || job->flip ? &ctx->horizontal : NULL;
  const axis* v = src.height != job->height ? &ctx->vertical : NULL;
  if ((h && axis_prepare(&ctx->horizontal, src.width, job->width, job->filter, job->flip != 0)) ||
      (v && axis_prepare(&ctx->vertical, src.height, job->height, job->filter, 0)))
    return fail(m, GOSPML_IMAGE_MEMORY, "out of memory for the weights of %dx%d to %dx%d", src.width, src.height,
                job->width, job->height);

  int columns_last = h && v && vertical_first(&src, job);
  size_t ring_stride = row_stride(columns_last ? src.width : ow);
  int32_t length = columns_last ? ROWS_AT_ONCE : (v ? v->most_taps : 1) + ROWS_AT_ONCE;
  uint8_t* ring = buffer_need(&ctx->ring, ring_stride * (size_t)(length + 1));
  /* Copies of last rows, or the four rows that leave the horizontal pass when it comes last. */
  uint8_t* padded = buffer_need(&ctx->padded, ROWS_AT_ONCE * row_stride(src.width > ow ? src.width : ow));
  uint8_t* line = buffer_need(&ctx->line, row_stride(ow));
  const uint8_t** rows = (const uint8_t**)buffer_need(&ctx->rows, sizeof *rows * (size_t)(v ? 2 * v->pairs : 1));
  if (!ring || !padded || !line || !rows)
    return fail(m, GOSPML_IMAGE_MEMORY, "out of memory for resizing %dx%d to %dx%d", src.width, src.height, job->width,
                job->height);

  normalize_row normalized = job->normalize ? normalizer_row(&ctx->norm, job->mean, job->std) : NULL;
  sink to = {ow, (size_t)ow * (size_t)oh, normalized, &ctx->norm, line, out};
  feed f = {kernels_now(), h, &src, w.x0, ow, ring, ring_stride, length, 0, padded};
  if (columns_last) {
    f.axis = NULL, f.x0 = 0;
    run_vertical_first(&f, h, v, w.x0, w.y0, oh, rows, &to);
  } else {
    run_horizontal_first(&f, v, w.y0, oh, rows, &to);
  }
  return GOSPML_IMAGE_OK;
}
