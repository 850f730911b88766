// Kernels for every processor, and those for double, which compute single numbers everywhere.
#include <stdint.h>

#include "pointwise.h"

namespace {
#include "lanes_generic.h"
#include "lanes_math.h"
#include "loss_math.h"
#include "pointwise_loop.h"
#include "kernels.h"
} // namespace

const spml::Kernels spml::kernels_generic = GOSPML_KERNELS("generic");

const spml::Kernel spml::kernels_double[POINTWISE_COUNT][2][2] = {
#define X(name, F, labels)                                                                       \
  {{loop<F, labels, double, double, double, false>, loop<F, labels, double, double, double, true>}, \
   {loop<F, labels, double, double, int8_t, false>, loop<F, labels, double, double, int8_t, true>}},
    GOSPML_POINTWISE(X)
#undef X
};
