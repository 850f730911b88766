// Kernels for avx512. System headers stay outside the anonymous namespace, everything else inside: a function that this file
// shares with others would be compiled for this instruction set and could be picked for all of them.
#include <immintrin.h>
#include <stdint.h>

#include "pointwise.h"

namespace {
#include "lanes_avx512.h"
#include "lanes_math.h"
#include "loss_math.h"
#include "pointwise_loop.h"
#include "kernels.h"
} // namespace

const spml::Kernels spml::kernels_avx512 = GOSPML_KERNELS("avx512");
