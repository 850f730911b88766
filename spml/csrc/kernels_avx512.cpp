// Kernels of the pointwise losses for avx512; see kernels_avx2.cpp for what stands where.
#include <immintrin.h>
#include <stdint.h>

#include "span.h"

namespace {
#include "lanes_avx512.h"
#include "lanes_math.h"
#include "loss_math.h"
using Number = float;
#include "pointwise_loop.h"
#include "kernels.h"
} // namespace

GOSPML_KERNELS(avx512)
