// The passes of batch_math.h by name. Plain declarations: the files for AVX include this too.
#pragma once

#include <stdint.h>

// X(name, functor, inputs, outputs, sums)
// clang-format off
#define GOSPML_BATCHWISE(X) \
  X(count, Count, 2, 0, 1)  \
  X(epr, Epr, 2, 1, 1)      \
  X(vlpl, Vlpl, 3, 1, 1)    \
  X(gpr, Gpr, 3, 1, 1)      \
  X(role, Role, 3, 2, 1)    \
  X(plc, Plc, 3, 2, 3)      \
  X(large, Large, 2, 2, 1)
// clang-format on

// Passes whose outputs hold σ(-|z|) of the logits when they begin, which `keep` has left there.
// clang-format off
#define GOSPML_KEPT(X)          \
  X(keep, Keep, 2, 1, 1)        \
  X(epr_kept, EprKept, 2, 1, 1) \
  X(gpr_kept, GprKept, 3, 1, 1) \
  X(role_kept, RoleKept, 3, 2, 1)
// clang-format on

namespace spml {

enum Batchwise {
#define X(name, F, inputs, outputs, sums) BATCHWISE_##name,
  GOSPML_BATCHWISE(X) GOSPML_KEPT(X)
#undef X
      BATCHWISE_COUNT
};

// A run of entries in one type, float or double; labels have the same type or are bytes.
struct BatchSpan {
  const void* in[3];
  void* out[2]; // read in kernels with outputs only
  int64_t n;
  const double* params;
  double sums[3]; // what the run adds up to
  // Where a pass selects: keys that are not below least, and their places from the start of the run.
  double least;
  void* keys;
  int32_t* at;
  int64_t found;
};

using BatchKernel = void (*)(BatchSpan&);

// One pass with and without outputs; and e^(x-top) of a row, which returns the sum.
struct BatchKernels {
  const char* name;
  BatchKernel run[BATCHWISE_COUNT][2][2]; // [labels are bytes][outputs]
  double (*exp_row)(float* x, int64_t n, double top);
};

extern const BatchKernels batch_avx512, batch_avx2, batch_generic;
extern const BatchKernel batch_double[BATCHWISE_COUNT][2][2];

} // namespace spml
