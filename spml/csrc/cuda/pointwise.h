// What the CUDA kernels of the pointwise losses get. Plain declarations, for the kernels and for the operators that
// start them.
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace spml::cuda {

enum Element { kFloat32, kFloat64, kFloat16, kBFloat16 };

constexpr int kMaxParams = 16;

struct Launch {
  Element element;       // of the logits; the gradient has it too, but float32 for float16
  bool byte_labels;      // int8, else numbers of the loss's type (float64 for float64 logits, float32 otherwise)
  const void* z;         // [rows, classes]
  const void* y;
  const void* w;         // second labels, nullptr where the loss has none
  void* g;               // nullptr: no gradient
  const uint8_t* counts; // [rows], 0 = this row does not count; nullptr: all do
  const int64_t* count;  // on the device: how many rows count; nullptr: all
  void* loss;            // float64 for float64 logits, else float32
  double* partial;       // [blocks(n)] room for sums of chunks
  int64_t n, classes;
  int reduction;         // as in problem.h: 1 mean, 2 sum, 3 mean over rows
  double params[kMaxParams];
  double scale;          // run sets it
  cudaStream_t stream;
};

// Sums are taken over chunks of fixed size, whatever the card, so equal inputs give equal bits.
constexpr int kThreads = 256, kPerThread = 16, kChunk = kThreads * kPerThread;
inline int64_t blocks(int64_t n) { return (n + kChunk - 1) / kChunk; }

// Starts the kernel of loss id (spml::Pointwise) and that which adds up the chunks.
cudaError_t run(int id, const Launch& l);

} // namespace spml::cuda
