// The pointwise losses by name, and what a kernel of one gets. Plain declarations: the files for AVX include this too.
#pragma once

#include <stdint.h>

// X(operator, functor of loss_math.h, number of label tensors)
#define GOSPML_POINTWISE(X) \
  X(an, An, 1)              \
  X(an_masked, AnMasked, 2) \
  X(an_ls, AnLs, 1)         \
  X(entmin, EntMin, 1)      \
  X(em, Em, 1)              \
  X(em_apl, EmApl, 1)       \
  X(focal, Focal, 1)        \
  X(asl, Asl, 1)            \
  X(hill, Hill, 1)          \
  X(splc, Splc, 1)          \
  X(gr, Gr, 1)

namespace spml {

enum Pointwise {
#define X(name, F, labels) POINTWISE_##name,
  GOSPML_POINTWISE(X)
#undef X
      POINTWISE_COUNT
};

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

// The kernels of one instruction set.
struct Kernels {
  const char* name;
  Kernel run[POINTWISE_COUNT][2][2]; // [labels are bytes][want_grad]
  void (*floats_of_bytes)(const int8_t*, float*, int64_t);
  void (*floats_of_bf16)(const uint16_t*, float*, int64_t);
  void (*floats_of_fp16)(const uint16_t*, float*, int64_t);
  void (*bf16_of_floats)(const float*, uint16_t*, int64_t);
};

extern const Kernels kernels_avx512, kernels_avx2, kernels_generic;
extern const Kernel kernels_double[POINTWISE_COUNT][2][2];

// The set for this processor, or the one that GOSPML_CPU (avx512, avx2, generic) names; throws c10::Error where it names none or
// one that the processor lacks.
const Kernels& kernels();

} // namespace spml
