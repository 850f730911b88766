// The table of the kernels for every processor.
#include <stdint.h>

#include "batchwise.h"
#include "frozen_kernels.h"
#include "pointwise.h"

namespace {
#include "lanes_generic.h"
#include "set.h"
} // namespace

#define X(name, F, labels, schema) &spml::name##_generic,
const spml::Kernels spml::kernels_generic = {
    "generic", {GOSPML_POINTWISE(X)}, &spml::batch_generic, &spml::frozen_generic, GOSPML_CONVERSIONS};
