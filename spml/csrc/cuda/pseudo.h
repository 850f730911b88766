// What the CUDA kernels of pseudo-labels get.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "../pseudo_math.h"

namespace spml::cuda {

struct VlplLaunch {
  const void* similarity;   // [photos, classes], float or double
  const uint8_t* taken;     // [photos, classes], the observed positives; nullptr: negatives take positives back
  int8_t* pseudo;           // [photos, classes]
  bool wide;                // double
  int64_t photos, classes, negatives;
  double theta;
  cudaStream_t stream;
};

cudaError_t vlpl_labels(const VlplLaunch& l);

struct DampLaunch {
  const void* global;       // [photos, classes], softmaxes
  const void* patches;      // [patches, photos, classes], softmaxes
  const int64_t* seen;      // [photos], the observed class
  const uint8_t* taken;     // [photos, classes], the observed positives
  int8_t* labels;           // [2, photos, classes]
  void* scores;             // [5, photos, classes]
  void* local;              // [photos]
  int64_t* tile;            // [photos, classes]
  bool wide;
  int64_t photos, classes, count; // count: patches
  int64_t top_k, negatives, form;
  double nu, zeta;
  cudaStream_t stream;
};

cudaError_t damp_labels(const DampLaunch& l);

} // namespace spml::cuda
