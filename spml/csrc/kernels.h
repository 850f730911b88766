// The kernels of one pointwise loss for one instruction set (Lanes of Number): after an edit of a loss it alone is
// compiled. Included last, in the anonymous namespace of kernels_*.cpp. CMake defines GOSPML_LOSS (the operator),
// GOSPML_LOSS_HEADER, GOSPML_FUNCTOR and GOSPML_LABELS from the table in pointwise.h.
#pragma once

#include GOSPML_LOSS_HEADER

#define GOSPML_NAME_OF(loss, set) loss##_##set
#define GOSPML_NAME(loss, set) GOSPML_NAME_OF(loss, set)
#define GOSPML_KERNELS(set)                                                \
  namespace spml {                                                         \
  extern const PointwiseKernels GOSPML_NAME(GOSPML_LOSS, set);             \
  const PointwiseKernels GOSPML_NAME(GOSPML_LOSS, set) = {                 \
      {loop<GOSPML_FUNCTOR, GOSPML_LABELS, Lanes, Number, Number, false>,  \
       loop<GOSPML_FUNCTOR, GOSPML_LABELS, Lanes, Number, Number, true>},  \
      {loop<GOSPML_FUNCTOR, GOSPML_LABELS, Lanes, Number, int8_t, false>,  \
       loop<GOSPML_FUNCTOR, GOSPML_LABELS, Lanes, Number, int8_t, true>}}; \
  }
