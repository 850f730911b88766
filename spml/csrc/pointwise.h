// The pointwise losses by name, and the tables of their kernels. Plain declarations: the files for AVX include this
// too.
#pragma once

#include <stdint.h>

#include "span.h"

// X(operator, functor of loss/<operator>.h, number of label tensors, parameters as an operator schema spells them).
// CMakeLists.txt reads these lines too: one line for each loss.
// clang-format off
#define GOSPML_POINTWISE(X) \
  X(an, An, 1, "float neg_weight=1.") \
  X(an_masked, AnMasked, 2, "float keep=1.") \
  X(an_ls, AnLs, 1, "float pos_target=0.9, float neg_target=0.1, float known_target=0.1") \
  X(entmin, EntMin, 1, "float strength=0.01, float with_an=0.") \
  X(em, Em, 1, "float alpha=0.2") \
  X(em_apl, EmApl, 1, "float alpha=0.2, float beta=0.02") \
  X(focal, Focal, 1, "float gamma=2., float pos_weight=0.75, float neg_weight=0.25, float detach=0.") \
  X(asl, Asl, 1, "float gamma_pos=0., float gamma_neg=2., float margin=0.2, float detach=1., float clamp=0.") \
  X(hill, Hill, 1, "float margin=1., float gamma=2., float lam=1.5") \
  X(splc, Splc, 1, "float tau=0.6, float margin=1., float gamma=2., float corrected_margin=0., float hill=0., float lam=1.5") \
  X(gr, Gr, 1, "float w=0., float b=-2., float mu=0.5, float sigma=2., float q1=0., float q2=0.01, float q3=1.") \
  X(l48, L48, 2, "float base=0., float unknown=1., float target=0.05, float neg_a=1., float neg_b=0., float group=0.")
// clang-format on

namespace spml {

enum Pointwise {
#define X(name, F, labels, schema) POINTWISE_##name,
  GOSPML_POINTWISE(X)
#undef X
      POINTWISE_COUNT
};

struct BatchKernels;  // batchwise.h
struct FrozenKernels; // frozen_kernels.h

// The kernels of one instruction set.
struct Kernels {
  const char* name;
  const PointwiseKernels* run[POINTWISE_COUNT];
  const BatchKernels* batch;
  const FrozenKernels* frozen;
  void (*floats_of_bytes)(const int8_t*, float*, int64_t);
  void (*floats_of_bf16)(const uint16_t*, float*, int64_t);
  void (*floats_of_fp16)(const uint16_t*, float*, int64_t);
  void (*bf16_of_floats)(const float*, uint16_t*, int64_t);
};

#define X(name, F, labels, schema) \
  extern const PointwiseKernels name##_avx512, name##_avx2, name##_generic, name##_double;
GOSPML_POINTWISE(X)
#undef X
extern const Kernels kernels_avx512, kernels_avx2, kernels_generic;
extern const PointwiseKernels* const kernels_double[POINTWISE_COUNT];

// The set for this processor, or the one that GOSPML_CPU (avx512, avx2, generic) names; throws c10::Error where it
// names none, or one that the processor or this build lacks.
const Kernels& kernels();

} // namespace spml
