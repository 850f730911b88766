// What the CUDA kernels of the batch-wide losses get: a pass of spml/csrc/batchwise.h over tensors of any type, and the rows of LAC's contrast.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "pointwise.h"

namespace spml::cuda {

constexpr Element kInt8 = static_cast<Element>(4);

// Passes beside those of batchwise.h.
constexpr int kLargeModify = 1000; // in z, y, selected; out the gradient; sums the terms after the modification

struct Tensors {
  void* data; // nullptr: not wanted
  Element element;
};

// A parameter that is known on the device only: params[slot] = factor · *value.
struct Late {
  int slot;
  double factor;
  const double* value;
};

constexpr int kMaxLates = 4;

struct BatchLaunch {
  bool wide; // computed in float64
  Tensors in[3], out[2];
  const uint8_t* counts; // [rows], 0 = this row does not count; nullptr: all do
  int64_t n, classes;
  double params[kMaxParams];
  Late late[kMaxLates];
  int lates;
  double* partial; // [blocks(n), 3]
  cudaStream_t stream;
};

// Starts the pass called id (spml::Batchwise, or one of the above).
cudaError_t run_batch(int id, const BatchLaunch& l);

// Row i of s [n, n] (float, or double with wide): the anchor's part of the contrast into loss[i], and in place of the row the derivative of the
// loss by it. id [n] are the classes.
cudaError_t run_contrast(bool wide, void* s, const int64_t* id, int64_t n, double* loss, cudaStream_t stream);

} // namespace spml::cuda
