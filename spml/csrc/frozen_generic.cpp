// Frozen networks for every processor.
#include <stdint.h>

#include "frozen_kernels.h"

namespace {
using namespace spml;
#include "lanes_generic.h"
#include "lanes_math.h"
using Number = float;
using Factor = Lanes;
constexpr int kPair = 1;
constexpr int kHalf = 3;
inline __attribute__((always_inline)) Lanes broadcast(const float* p) { return Lanes(Floats{} + *p); }
inline __attribute__((always_inline)) void store_some(float* p, Lanes x, int64_t n) {
  float all[4];
  store(all, x);
  for (int64_t i = 0; i < n; i++) p[i] = all[i];
}
inline __attribute__((always_inline)) void load_factor(const float* p, Lanes& x) { load(p, x); }
inline __attribute__((always_inline)) Lanes multiply(Lanes a, Lanes b, Lanes c) { return fma(a, b, c); }
#include "frozen_loop.h"
} // namespace

const spml::FrozenKernels spml::frozen_generic = GOSPML_FROZEN_KERNELS;
