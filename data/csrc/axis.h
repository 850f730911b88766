/* Resampling weights of one axis, as Pillow computes them. */
#ifndef GOSPML_IMAGE_AXIS_H
#define GOSPML_IMAGE_AXIS_H

#include <stdint.h>

#define WEIGHT_BITS 22 /* fixed point: a weight of 1 is 1 << 22 */
#define WEIGHT_HALF (1 << (WEIGHT_BITS - 1))

/* The weights of output i apply to inputs first[i] .. first[i]+taps[i]-1. For multiplying 16-bit numbers, a weight q is
 * split into q = high * 2^15 + low with 0 <= low < 2^15; split holds, per output and pair of taps, the two low parts in
 * one int32 and the two high parts in the next. Absent taps weigh 0. */
typedef struct axis {
  int32_t in, out, filter, mirrored; /* the key of the cached table; out = 0: empty */
  int32_t pairs; /* pairs of taps per output */
  int32_t most_taps;
  int32_t *first, *taps; /* [out] */
  int32_t* split; /* [out, pairs, 2] */
} axis;

/* Fills the table unless it already holds it. mirrored: output i takes the weights of output out-1-i.
 * Returns 0, or -1 where memory is short. */
int axis_prepare(axis*, int32_t in, int32_t out, int32_t filter, int mirrored);
void axis_free(axis*);

/* See gospml_image_api_table.coefficients. */
int32_t axis_coefficients(int32_t in, int32_t out, int32_t filter, int32_t* first, int32_t* taps, int32_t* weights);

#endif
