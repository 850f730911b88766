// The work of a frozen network by kernel, channels last. A number of an activation or a weight is a float or a
// bfloat16, as the set of kernels has it; biases, gains and sums are floats. In int8 an activation is (q - zero)·scale
// with q of 0 to 255, a weight q·scale of its output channel with q of -127 to 127, and sums are int32: no order of
// additions changes a bit. Plain declarations: the files for AVX include this too.
#pragma once

#include <stdint.h>

namespace spml {

// Pixels of one activation: numbers between pixels, rows and images. data is the first pixel, within the border of
// zeros where there is one.
struct FrozenView {
  char* data;
  int64_t pitch, row, image;
};

enum FrozenAct : int64_t { FROZEN_NONE, FROZEN_CLAMP, FROZEN_GELU, FROZEN_GELU_TANH, FROZEN_QUICK_GELU, FROZEN_ACTS };

// What makes the sums of an int8 step its output: out = act(sum·factor + shift + addend·add), and integers where it is
// not floats: round(·out + zero) within [0, 255]. Where the activation is a clamp or none, its bounds and the factors
// are those of the integers.
struct FrozenInt8 {
  const float *factor, *shift; // of output channels; shift has the bias and what zero points add
  const void* start; // sums begin there, at -zero·Σ weights: int32 of a convolution, floats of a depthwise one
  float add, out, zero;
  bool add_floats, out_floats;
};

// A convolution or a linear layer: out = act(weights · in + bias + add). Weights lie in panels of output channels:
// [kernel row][numbers of the row by pairs][channel][2] where numbers go by pairs.
struct FrozenConv {
  FrozenView in, out, add; // in.data is the first tap of the first output pixel; add.data may be null
  int64_t images, height, width; // of the output
  int64_t runs, run; // rows of the kernel; numbers of one, which lie together: kernel width · channels
  int64_t stride;
  bool flat; // pixels of the input lie evenly over rows and images, one for each of the output
  const char* weights;
  const float* bias;
  int64_t columns; // output channels
  FrozenAct act;
  float low, high; // of FROZEN_CLAMP; bounds of the integers
  FrozenInt8 q;
};

// Each channel by itself: a square kernel, weights [kernel][kernel][channels up to a whole vector], floats.
struct FrozenDepthwise {
  FrozenView in, out; // in.data is the first tap of the first output pixel
  int64_t height, width, kernel, stride, channels, padded; // padded: channels up to a whole vector
  const float *weights, *bias;
  FrozenAct act;
  float low, high;
  FrozenInt8 q;
};

// softmax(q·kᵀ·scale)·v of one head of one image. Rows are pitch apart.
struct FrozenAttention {
  const char *q, *k, *v;
  int64_t q_pitch, kv_pitch;
  char* out;
  int64_t out_pitch, queries, keys, dim;
  float scale;
  float* scratch; // frozen_attention_scratch(keys, dim) floats
};

struct FrozenKernels {
  int64_t size; // bytes of a number
  int64_t pair; // numbers that are multiplied and added at once
  int64_t lanes; // floats of a vector
  int64_t half; // pixels of half a tile; reads may go this many pixels beyond the last
  int64_t panel; // columns of a whole panel of weights; a last one of at most `lanes` is as wide as that
  // Pairs of halves [first, last) by panels [from, to). Of flat ones a half is `half` pixels in a line, else within a
  // row.
  void (*conv)(const FrozenConv&, int64_t first, int64_t last, int64_t from, int64_t to);
  void (*depthwise)(const FrozenDepthwise&, int64_t image, int64_t y);
  void (*norm)(const char* in, char* out, int64_t n, const float* gain, const float* bias, float eps);
  void (*attention)(const FrozenAttention&);
  void (*larger)(const char* in, char* out, int64_t n); // out = max(out, in); NaN stays
  void (*mean)(const FrozenView& in, int64_t height, int64_t width, int64_t n,
               char* out); // of one image; in int8 floats of the integers
  void (*narrow)(const float* in, char* out, int64_t n); // floats to numbers
  void (*widen)(const char* in, float* out, int64_t n); // numbers to floats
  bool (*quantize)(const float* in, char* out, int64_t n, float by,
                   float zero); // int8 alone: round(in·by + zero); says whether one is no number
};

inline int64_t frozen_halves(const FrozenKernels& k, const FrozenConv& c) {
  const int64_t half = k.half;
  return c.flat ? (c.images * c.height * c.width + half - 1) / half
                : c.images * c.height * ((c.width + half - 1) / half);
}
inline int64_t frozen_round(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline int64_t frozen_panels(const FrozenKernels& k, int64_t columns) { return (columns + k.panel - 1) / k.panel; }
// Weights of an output channel, with zeros behind an odd run.
inline int64_t frozen_depth(const FrozenKernels& k, int64_t runs, int64_t run) {
  return runs * frozen_round(run, k.pair);
}
// Columns that all panels hold.
inline int64_t frozen_width(const FrozenKernels& k, int64_t columns) {
  const int64_t rest = columns % k.panel;
  return columns - rest + (rest == 0 ? 0 : rest <= k.lanes ? k.lanes : k.panel);
}
inline int64_t frozen_attention_scratch(const FrozenKernels& k, int64_t keys, int64_t dim) {
  const int64_t width = frozen_width(k, keys);
  return width * (dim + 1) + (keys + 1) * frozen_width(k, dim) + 2 * k.half * width;
}

extern const FrozenKernels frozen_avx512, frozen_avx2, frozen_generic;
extern const FrozenKernels frozen_bf16; // of processors with AVX512_BF16
extern const FrozenKernels
    frozen_int8; // of processors with AVX512_VNNI: conv, depthwise, larger, mean, narrow (of weights), widen, quantize

} // namespace spml
