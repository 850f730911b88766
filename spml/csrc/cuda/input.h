// What the CUDA kernels of the input get.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "../input_math.h"
#include "pointwise.h"

namespace spml::cuda {

struct NormalizeLaunch {
  const uint8_t* pixels; // [images, height, width, 3]
  const bool* flip;      // [images]; nullptr: none
  void* out;             // [images, 3, height, width] or, channels last, in the order of pixels
  Element element;
  bool channels_last;
  int64_t images, height, width;
  float mean[3], std[3];
  cudaStream_t stream;
};

cudaError_t normalize(const NormalizeLaunch& l);

struct ResampleLaunch {
  const uint8_t* in; // [images, height, width, 3]
  uint8_t* out;      // with axis.out columns or rows in place of the input's
  Axis axis;
  bool rows; // the axis runs down
  int64_t images, height, width;
  cudaStream_t stream;
};

cudaError_t resample(const ResampleLaunch& l);

} // namespace spml::cuda
