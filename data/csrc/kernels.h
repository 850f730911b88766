/* The three inner loops, each in plain C, AVX2 and AVX-512. All give the same bytes. */
#ifndef GOSPML_IMAGE_KERNELS_H
#define GOSPML_IMAGE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "axis.h"

/* Rows handed to `horizontal` may be read, and its results written, this far behind their last pixel. */
#define SLACK 64
#define ROWS_AT_ONCE 4

/* (v/255 - mean)/std in float32 for one set of constants. */
typedef struct normalizer {
  float mean[3], std[3];
  const void* checked;  /* the kernels that `exact` speaks of; NULL: nothing is filled in yet */
  int exact;            /* their arithmetic gives the table's bits for all 256 values */
  float table[3][256];  /* the definition: IEEE division, subtraction, division */
  float inverse_std[3]; /* starting point of the vectorised division */
  /* Byte shuffles [mirrored][channel][source register] that take 16 pixels RGB apart; -1 gives zero. */
  int8_t deinterleave[2][3][3][16];
} normalizer;

/* One row of n RGB pixels to three planes, mirrored if flip. */
typedef void (*normalize_row)(const uint8_t* row, int32_t n, const normalizer*, int flip, float* const planes[3]);

typedef struct kernels {
  /* Outputs x0 .. x0+n-1 of four rows of RGB. Rows may repeat; targets must be writable. */
  void (*horizontal)(const uint8_t* const rows[ROWS_AT_ONCE], uint8_t* const targets[ROWS_AT_ONCE], const axis*,
                     int32_t x0, int32_t n);
  /* target[i] = weighted sum of rows[k][i] over 2*pairs rows, for n bytes; reads and writes no further. */
  void (*vertical)(const uint8_t* const* rows, int32_t pairs, const int32_t* split, uint8_t* target, size_t n);
  normalize_row normalize; /* the vectorised ones only where norm->exact */
} kernels;

extern const kernels kernels_c, kernels_avx2, kernels_avx512;

/* The plain C form of single pixels, for the ends of vectorised loops. */
void normalize_pixels(const uint8_t* row, int32_t from, int32_t n, const normalizer*, int flip, float* const planes[3]);
void vertical_bytes(const uint8_t* const* rows, int32_t pairs, const int32_t* split, uint8_t* target, size_t from,
                    size_t n);

/* The kernels in use. */
const kernels* kernels_now(void);
int32_t kernels_level(void);
int32_t kernels_set_level(int32_t);

#endif
