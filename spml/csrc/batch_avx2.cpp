// Passes over the batch for avx2; see kernels_avx2.cpp for what stands where.
#include <immintrin.h>
#include <stdint.h>

#include "batchwise.h"

namespace {
#include "lanes_avx2.h"
#include "lanes_math.h"
#include "loss_math.h"
#include "batch_math.h"
#include "batch_loop.h"
} // namespace

const spml::BatchKernels spml::batch_avx2 = GOSPML_BATCH_KERNELS("avx2");
