// Passes over the batch for double, which compute single numbers everywhere.
#include <stdint.h>

#include "batchwise.h"

namespace {
#include "loss_math.h"
#include "batch_math.h"
GOSPML_FN void load(const double* p, double& x) { x = *p; }
GOSPML_FN void store(double* p, double x) { *p = x; }
GOSPML_FN double total_of(double x) { return x; }
GOSPML_FN void load(const int8_t* p, double& x) { x = *p; }
GOSPML_FN unsigned reach(double key, double least) { return !(key < least); }
#include "batch_loop.h"
} // namespace

const spml::BatchKernel spml::batch_double[BATCHWISE_COUNT][2][2] = {
#define X(name, F, inputs, outputs, sums) GOSPML_PASS_OF(double, double, F, inputs, outputs, sums)
    GOSPML_BATCHWISE(X)
#undef X
#define X(name, F, inputs, outputs, sums) GOSPML_KEPT_PASS_OF(double, double, F, inputs, outputs, sums)
        GOSPML_KEPT(X)
#undef X
};
