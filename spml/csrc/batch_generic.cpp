// Passes over the batch for every processor.
#include <stdint.h>

#include "batchwise.h"

namespace {
#include "lanes_generic.h"
#include "lanes_math.h"
#include "loss_math.h"
#include "batch_math.h"
#include "batch_loop.h"
} // namespace

const spml::BatchKernels spml::batch_generic = GOSPML_BATCH_KERNELS("generic");
