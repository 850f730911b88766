// Passes over the batch for every processor, and those for double, which compute single numbers everywhere.
#include <stdint.h>

#include "batchwise.h"

namespace {
#include "lanes_generic.h"
#include "lanes_math.h"
#include "loss_math.h"
#include "batch_math.h"
GOSPML_FN void load(const double* p, double& x) { x = *p; }
GOSPML_FN void store(double* p, double x) { *p = x; }
GOSPML_FN double total_of(double x) { return x; }
#include "batch_loop.h"
} // namespace

const spml::BatchKernels spml::batch_generic = GOSPML_BATCH_KERNELS("generic");

const spml::BatchKernel spml::batch_double[BATCHWISE_COUNT][2] = {
#define X(name, F, inputs, outputs, sums) {pass<F, inputs, outputs, sums, double, double, false>, pass<F, inputs, outputs, sums, double, double, true>},
    GOSPML_BATCHWISE(X)
#undef X
};
