/* The image library's border: JPEG decoding through TurboJPEG and the resampler that gives Pillow's bytes.
 *
 * One exported function, gospml_image_api, returns a table of function pointers. Everything crosses as raw pointers and
 * sizes. Every call that can fail returns a status and writes one sentence into the caller's gospml_image_message.
 * A context holds scratch memory; use it from one thread at a time. Nothing else keeps state,
 * except the process-wide choice of kernels. */
#ifndef GOSPML_IMAGE_H
#define GOSPML_IMAGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GOSPML_IMAGE_ABI 1

enum gospml_image_status {
  GOSPML_IMAGE_OK = 0,
  GOSPML_IMAGE_DAMAGED = 1,     /* the bytes are not a whole, valid JPEG */
  GOSPML_IMAGE_TOO_LARGE = 2,   /* more pixels than the caller allows */
  GOSPML_IMAGE_UNSUPPORTED = 3, /* a JPEG of a kind that is not decoded (two components, lossless, 12 bit) */
  GOSPML_IMAGE_ARGUMENT = 4,    /* a size, rectangle or buffer that cannot be right */
  GOSPML_IMAGE_MEMORY = 5       /* out of memory */
};

/* Kernel and arithmetic. Pillow: 22-bit weights, 8 bits between the passes. Torchvision: the same with 16-bit weights,
 * always horizontal first (its uint8 tensors). Float: float32 weights and sums, rounded half to even at the end (its
 * tensors by way of float32). The lowest bit is the kernel. */
enum gospml_image_filter {
  GOSPML_IMAGE_BILINEAR = 0,
  GOSPML_IMAGE_BICUBIC = 1,
  GOSPML_IMAGE_TORCHVISION_BILINEAR = 2,
  GOSPML_IMAGE_TORCHVISION_BICUBIC = 3,
  GOSPML_IMAGE_FLOAT_BILINEAR = 4,
  GOSPML_IMAGE_FLOAT_BICUBIC = 5
};

/* Kernels, slowest first. All give the same bytes. */
enum gospml_image_cpu { GOSPML_IMAGE_CPU_SSE = 0, GOSPML_IMAGE_CPU_AVX2 = 1, GOSPML_IMAGE_CPU_AVX512 = 2 };

typedef struct gospml_image_message {
  char text[256]; /* zero-terminated; empty after success */
} gospml_image_message;

/* Half-open rectangle; all zero means "the whole picture". */
typedef struct gospml_image_rect {
  int32_t x0, y0, x1, y1;
} gospml_image_rect;

/* What to do with a picture: take the rectangle `source` of it as if it had been cropped first, resize that to
 * width x height, keep the rectangle `window` of the result, mirror it if flip is set. As float32 the result is
 * (v/255 - mean)/std per channel. */
typedef struct gospml_image_job {
  int32_t width, height;
  int32_t filter;
  int32_t flip;
  int32_t normalize; /* 0: uint8 [h, w, 3]; 1: float32 [3, h, w] */
  float mean[3], std[3];
  gospml_image_rect source, window;
  int64_t max_pixels; /* of the file's picture; JPEG only */
} gospml_image_job;

typedef struct gospml_image_context gospml_image_context;

typedef struct gospml_image_api_table {
  uint32_t abi;  /* GOSPML_IMAGE_ABI of the library; compare before reading on */
  uint32_t size; /* sizeof this table in the library */

  gospml_image_context* (*context_new)(void); /* NULL: out of memory */
  void (*context_free)(gospml_image_context*);

  /* Width, height and number of components from the frame header; reads no further. */
  int32_t (*jpeg_header)(const uint8_t* bytes, uint64_t n, int32_t info[3], gospml_image_message*);
  /* Decodes to uint8 [height, width, 3] as jpeg_header gave them; out_size in bytes. */
  int32_t (*jpeg_decode)(gospml_image_context*, const uint8_t* bytes, uint64_t n, int64_t max_pixels, uint8_t* out,
                         uint64_t out_size, gospml_image_message*);
  /* JPEG bytes -> out, in one call. out_size in bytes. */
  int32_t (*jpeg_resize)(gospml_image_context*, const uint8_t* bytes, uint64_t n, const gospml_image_job*, void* out,
                         uint64_t out_size, gospml_image_message*);
  /* uint8 [height, width, 3] -> out. */
  int32_t (*resize)(gospml_image_context*, const uint8_t* pixels, int32_t width, int32_t height,
                    const gospml_image_job*, void* out, uint64_t out_size, gospml_image_message*);
  /* uint8 [height, width, 3] -> float32 [3, height, width], mirrored if flip. */
  int32_t (*normalize)(gospml_image_context*, const uint8_t* pixels, int32_t width, int32_t height, const float mean[3],
                       const float std[3], int32_t flip, float* out, uint64_t out_size, gospml_image_message*);
  /* Fixed-point weights of one axis: first[i], taps[i] and weights[i * stride + k]. Returns the stride (most taps);
   * with weights NULL only that. 0: bad sizes. */
  int32_t (*coefficients)(int32_t in, int32_t out, int32_t filter, int32_t* first, int32_t* taps, int32_t* weights);

  int32_t (*cpu)(void);               /* the kernels in use */
  int32_t (*set_cpu)(int32_t level);  /* asks for kernels; returns those in use, never above what the processor has */
} gospml_image_api_table;

/* The table for the wanted ABI, or the library's own one: the caller compares abi. */
__attribute__((visibility("default"))) const gospml_image_api_table* gospml_image_api(uint32_t wanted);

#ifdef __cplusplus
}
#endif
#endif
