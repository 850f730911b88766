// Kernels of the pointwise losses for every processor.
#include <stdint.h>

#include "span.h"

namespace {
#include "lanes_generic.h"
#include "lanes_math.h"
#include "loss_math.h"
using Number = float;
#include "pointwise_loop.h"
#include "kernels.h"
} // namespace

GOSPML_KERNELS(generic)
