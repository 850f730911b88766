// Kernels of the pointwise losses for double, which compute single numbers everywhere.
#include <stdint.h>

#include "span.h"

namespace {
using Lanes = double;
using Number = double;
#include "loss_math.h"
#include "pointwise_loop.h"
#include "kernels.h"
} // namespace

GOSPML_KERNELS(double)
