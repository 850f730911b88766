// The table of the kernels for avx2.
#include <immintrin.h>
#include <stdint.h>

#include "batchwise.h"
#include "frozen_kernels.h"
#include "pointwise.h"

namespace {
#include "lanes_avx2.h"
#include "set.h"
} // namespace

#define X(name, F, labels, schema) &spml::name##_avx2,
const spml::Kernels spml::kernels_avx2 = {
    "avx2", {GOSPML_POINTWISE(X)}, &spml::batch_avx2, &spml::frozen_avx2, GOSPML_CONVERSIONS};
