// The table of the kernels for avx512.
#include <immintrin.h>
#include <stdint.h>

#include "batchwise.h"
#include "frozen_kernels.h"
#include "pointwise.h"

namespace {
#include "lanes_avx512.h"
#include "set.h"
} // namespace

#define X(name, F, labels, schema) &spml::name##_avx512,
const spml::Kernels spml::kernels_avx512 = {
    "avx512", {GOSPML_POINTWISE(X)}, &spml::batch_avx512, &spml::frozen_avx512, GOSPML_CONVERSIONS};
