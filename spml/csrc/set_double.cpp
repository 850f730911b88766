// The table of the kernels for double.
#include "pointwise.h"

#define X(name, F, labels, schema) &spml::name##_double,
const spml::PointwiseKernels* const spml::kernels_double[POINTWISE_COUNT] = {GOSPML_POINTWISE(X)};
