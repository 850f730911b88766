// What a kernel of a pointwise loss gets.
#pragma once

#include <stdint.h>

namespace spml {

// A run of elements in one type: float, or double in the kernels for it. Labels have the same type or are bytes.
struct Span {
  const void* z;      // logits
  const void* y;      // labels
  const void* w;      // second labels, nullptr where the loss has none
  void* g;            // derivatives times scale; nullptr in kernels without gradient
  int64_t n;
  double scale;
  const double* params;
};

// Returns the sum of the terms (not scaled).
using Kernel = double (*)(const Span&);
using PointwiseKernels = Kernel[2][2]; // [labels are bytes][want_grad]

} // namespace spml
