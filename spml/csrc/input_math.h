// Pixels to numbers, and Pillow's resampling of bytes: what the CPU's and the card's kernels share. No ATen.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define GOSPML_INPUT_FN __host__ __device__ __forceinline__
#else
#define GOSPML_INPUT_FN inline
#endif

namespace spml {

// (v/255 - mean)/std in float32 with IEEE division, as torchvision's ToTensor and Normalize: the bits depend on nothing
// else.
GOSPML_INPUT_FN float normal(uint8_t v, float mean, float std) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(__fsub_rn(__fdiv_rn(static_cast<float>(v), 255.0f), mean), std);
#else
  return (static_cast<float>(v) / 255.0f - mean) / std;
#endif
}

// One axis of Pillow's resampling (src/libImaging/Resample.c): output i is the sum of taps[i] inputs from first[i] on
// by weights[i * stride + k] in 22-bit fixed point.
struct Axis {
  const int32_t* first;
  const int32_t* taps;
  const int32_t* weights;
  int64_t out, stride;
};

constexpr int kWeightBits = 22;

// Output i of values that lie `step` bytes apart.
GOSPML_INPUT_FN uint8_t resampled(const Axis& a, int64_t i, const uint8_t* from, int64_t step) {
  const int32_t* w = a.weights + i * a.stride;
  const uint8_t* p = from + a.first[i] * step;
  int32_t sum = 1 << (kWeightBits - 1);
  for (int32_t k = 0; k < a.taps[i]; k++) sum += static_cast<int32_t>(p[k * step]) * w[k];
  const int32_t v = sum >> kWeightBits;
  return static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v);
}

} // namespace spml
