// Kernels of the pointwise losses for avx2. System headers stay outside the anonymous namespace, everything else
// inside: a function that this file shares with others would be compiled for this instruction set and could be picked
// for all of them.
#include <immintrin.h>
#include <stdint.h>

#include "span.h"

namespace {
#include "lanes_avx2.h"
#include "lanes_math.h"
#include "loss_math.h"
using Number = float;
#include "pointwise_loop.h"
#include "kernels.h"
} // namespace

GOSPML_KERNELS(avx2)
