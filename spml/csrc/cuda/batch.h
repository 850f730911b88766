// What the CUDA kernels of the batch-wide losses get: a pass of spml/csrc/batchwise.h over tensors of any type, and the
// rows of LAC's contrast.
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

// What is done with the sums of a pass, in one kernel: numbers that later passes and the loss need stay on the device.
struct Tally {
  enum Kind {
    kScale, // numbers[at] = what the sum of terms is multiplied by
    kRegulariser, // the same, and numbers[at + 1] = ((sums[0]/rows - k)/classes)², numbers[at + 2] = what its
                  // derivative has before p·n
    kLoss // loss = sums[0]·scale·factor + Σ weight[i]·numbers[slot[i]] + lam·sums[1]/over, numbers[at] = lam/over
  };
  Kind kind;
  const double* partial; // [chunks, 3] of the pass; nullptr: none
  int64_t chunks;
  const int64_t* count; // rows that count, on the device; nullptr: they are `rows`
  int64_t rows, classes;
  int reduction; // as in problem.h: 1 mean, 2 sum, 3 mean over rows
  double k; // of the regulariser
  double factor; // of the loss
  int slots, slot[2];
  double weight[2];
  double lam; // of a second sum; 0: none
  bool over_rows; // it is divided by the rows, else by sums[2], at least 1
  double* numbers;
  int at;
  void* loss; // float64 with wide, else float32
  bool wide;
  cudaStream_t stream;
};

cudaError_t run_tally(const Tally& t);

// Starts the pass called id (spml::Batchwise, or one of the above).
cudaError_t run_batch(int id, const BatchLaunch& l);

// Row i of s [n, n] (float, or double with wide): the anchor's part of the contrast into loss[i], and in place of the
// row the derivative of the loss by it. id [n] are the classes; a vector with an id below 0 does not count.
cudaError_t run_contrast(bool wide, void* s, const int64_t* id, int64_t n, double* loss, cudaStream_t stream);

} // namespace spml::cuda
