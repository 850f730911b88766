/* Inside of the library: the context, buffers, errors. */
#ifndef GOSPML_IMAGE_INSIDE_H
#define GOSPML_IMAGE_INSIDE_H

#include <stddef.h>
#include <stdint.h>

#include "axis.h"
#include "gospml_image.h"
#include "kernels.h"

/* Memory that grows and is used again. Contents are lost when it grows. */
typedef struct buffer {
  uint8_t* p; /* 64-byte aligned */
  size_t size;
} buffer;

/* NULL: out of memory. The result is readable and writable for at least n bytes. */
uint8_t* buffer_need(buffer*, size_t n);
void buffer_free(buffer*);

struct gospml_image_context {
  buffer picture; /* a decoded JPEG, uint8 [h, w, 3] with SLACK bytes behind */
  buffer cmyk;    /* the same with four channels, for CMYK and YCCK files */
  buffer ring;    /* rows after the horizontal pass */
  buffer rows;    /* pointers to the rows of one vertical step */
  buffer padded;  /* copies of last rows of pictures that have no SLACK */
  buffer line;    /* one finished row before it is normalized */
  axis horizontal, vertical;
  normalizer norm;
};

/* Frees what an unusually large picture made large, so that one photo does not hold memory for ever. */
void context_trim(gospml_image_context*);

/* Writes the sentence and returns status. */
int32_t fail(gospml_image_message*, int32_t status, const char* format, ...) __attribute__((format(printf, 3, 4)));

/* A picture in memory: rows of [width, 3], stride bytes apart; reading is allowed up to end. */
typedef struct picture {
  const uint8_t* pixels;
  int32_t width, height;
  size_t stride;
  const uint8_t* end;
} picture;

/* Checks the job against a picture of this size and the size of the output. */
int32_t job_check(const gospml_image_job*, int32_t width, int32_t height, uint64_t out_size, gospml_image_message*);
/* Runs a checked job. */
int32_t job_run(gospml_image_context*, const picture*, const gospml_image_job*, void* out, gospml_image_message*);

/* Where finished rows go. */
typedef struct sink {
  int32_t width;
  size_t plane;             /* pixels of the result */
  normalize_row normalized; /* NULL: uint8 [h, w, 3] */
  const normalizer* norm;
  uint8_t* line; /* [width*3 + SLACK]: a row on its way to planes */
  void* out;
} sink;

uint8_t* sink_target(const sink*, int32_t y);
void sink_row(const sink*, int32_t y, const uint8_t* row);

/* Runs a checked job in float32; the picture is already the source, window is never empty. */
int32_t float_run(gospml_image_context*, const picture*, const gospml_image_job*, const gospml_image_rect* window,
                  void* out, gospml_image_message*);

/* Decodes into the context's picture buffer. */
int32_t jpeg_to_context(gospml_image_context*, const uint8_t* bytes, uint64_t n, int64_t max_pixels, picture*,
                        gospml_image_message*);
int32_t jpeg_header(const uint8_t* bytes, uint64_t n, int32_t info[3], gospml_image_message*);
int32_t jpeg_decode(gospml_image_context*, const uint8_t* bytes, uint64_t n, int64_t max_pixels, uint8_t* out,
                    uint64_t out_size, gospml_image_message*);

/* Refuses constants that give no numbers. */
int32_t normalizer_check(const float mean[3], const float std[3], gospml_image_message*);
/* Prepares for these constants and returns the fastest function that gives the defined bits. */
normalize_row normalizer_row(normalizer*, const float mean[3], const float std[3]);
int32_t normalize_picture(gospml_image_context*, const uint8_t* pixels, int32_t width, int32_t height,
                          const float mean[3], const float std[3], int32_t flip, float* out, uint64_t out_size,
                          gospml_image_message*);

#endif
