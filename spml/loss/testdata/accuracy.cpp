// Prints the largest relative errors of the lanes' functions over every stride-th float of their ranges (argument; 1
// for all of them), beside libm's in double. Compiled with LANES set to the header of one instruction set and its
// flags; `go test -run TestLanesAccuracy ./spml/loss` holds the figures to those that loss_math.h states.
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include LANES
#include "../../csrc/lanes_math.h"

namespace {

constexpr int W = sizeof(Lanes) / sizeof(float);

uint32_t bits(float x) {
  uint32_t b;
  memcpy(&b, &x, 4);
  return b;
}

// Calls f over the positive floats lo to hi, negated where sign is -1, and keeps the largest relative error against
// each reference.
template <class F, class R>
double worst(float lo, float hi, float sign, uint32_t stride, F f, R reference) {
  double most = 0;
  const uint64_t end = bits(hi);
  for (uint64_t b = bits(lo); b <= end;) {
    alignas(64) float x[W], y[W];
    for (int k = 0; k < W; k++, b += stride) {
      const uint32_t now = static_cast<uint32_t>(std::min(b, end));
      memcpy(x + k, &now, 4);
      x[k] *= sign;
    }
    Lanes v;
    load(x, v);
    store(y, f(v));
    for (int k = 0; k < W; k++) {
      const double want = reference(static_cast<double>(x[k]));
      const double error = want == 0 ? fabs(y[k]) : fabs(y[k] - want) / fabs(want);
      most = error <= most ? most : error;
    }
  }
  return most;
}

} // namespace

int main(int argc, char** argv) {
  const uint32_t s = argc > 1 ? static_cast<uint32_t>(atoi(argv[1])) : 1;
  const float tiny = 1.17549435e-38f, low = 87.33654f;
  const auto m1 = [](Lanes x) {
    Lanes a, b;
    expm1_neg(x, a, b);
    return a;
  };
  const auto e = [](Lanes x) {
    Lanes a, b;
    expm1_neg(x, a, b);
    return b;
  };
  const auto any = [](Lanes x) { return exp_any(x); };
  const auto real = [](double x) { return exp(x); };
  printf("exp_neg %.3g\n", worst(0, low, 1, s, [](Lanes x) { return exp_neg(x); }, [](double x) { return exp(-x); }));
  printf("exp_any %.3g\n", std::max(worst(0, low, -1, s, any, real), worst(0, 88, 1, s, any, real)));
  printf("expm1_neg %.3g\n",
         std::max(worst(tiny, 87, -1, s, m1, [](double x) { return expm1(x); }), worst(0, 87, -1, s, e, real)));
  printf("log_pos %.3g\n",
         worst(tiny, 3.4e38f, 1, s, [](Lanes x) { return log_pos(x); }, [](double x) { return log(x); }));
  printf("log1p_unit %.3g\n",
         worst(0, 1, 1, s, [](Lanes x) { return log1p_unit(x); }, [](double x) { return log1p(x); }));
  printf("reciprocal %.3g\n",
         worst(tiny, 8e37f, 1, s, [](Lanes x) { return reciprocal(x); }, [](double x) { return 1 / x; }));
}
