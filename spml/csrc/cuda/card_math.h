// The functions that loss_math.h asks for, of float32 on a card: its exponential, logarithm and reciprocal unit,
// polynomials where those have no digits. Largest relative errors, with the units' own (2^-22; 2^-23 of the
// reciprocal): exp_neg and exp_any 2.4e-7 + |x|·6e-8, the absolute one of e^-x 4e-8 beyond 2.4e-7·e^-x;
// log1p_unit 3.5e-7; expm1_neg 6e-7; reciprocal 1.2e-7. log_pos is exact to 2.5e-7 absolutely near 1, where its
// argument was rounded before, and relatively beyond [1/2, 2].
#pragma once

#if defined(GOSPML_EMULATED) // the units with the errors that they may have
#include <math.h>
#include <string.h>
inline float unit_error(float exact, float part) {
  unsigned bits;
  memcpy(&bits, &exact, 4);
  return exact + exact * (bits * 2654435761u & 0x80000000u ? part : -part);
}
GOSPML_FN float unit_exp2(float x) { return unit_error(exp2f(x), 0x1p-22f); }
GOSPML_FN float unit_log2(float x) { return log2f(x) + (x > 0.5f && x < 2 ? unit_error(1, 0x1p-22f) - 1 : 0); }
GOSPML_FN float unit_reciprocal(float x) { return unit_error(1 / x, 0x1p-23f); }
#elif defined(__CUDA_ARCH__)
GOSPML_FN float unit_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GOSPML_FN float unit_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GOSPML_FN float unit_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else // of a compiler's pass for the host, which calls none of them
GOSPML_FN float unit_exp2(float x) { return x; }
GOSPML_FN float unit_log2(float x) { return x; }
GOSPML_FN float unit_reciprocal(float x) { return x; }
#endif

GOSPML_FN float select(bool m, float a, float b) { return m ? a : b; }
GOSPML_FN float clamp_min(float x, float lo) { return x < lo ? lo : x; }
GOSPML_FN float clamp_max(float x, float hi) { return x > hi ? hi : x; }
GOSPML_FN float absolute(float x) { return fabsf(x); }
GOSPML_FN float reciprocal(float x) { return unit_reciprocal(x); }
GOSPML_FN float exp_any(float x) { return unit_exp2(x * 1.442695041f); }
GOSPML_FN float exp_neg(float x) { return unit_exp2(x * -1.442695041f); }
GOSPML_FN float log_pos(float x) { return unit_log2(x) * 0.6931471806f; }

// x + x²·P6(x) on [0, 1] [2.2e-7].
GOSPML_FN float log1p_unit(float x) {
  float q = x * -0.008778956718742847f + 0.04498664662241936f;
  q = q * x + -0.10902291536331177f;
  q = q * x + 0.17847208678722382f;
  q = q * x + -0.24536865949630737f;
  q = q * x + 0.3328406512737274f;
  q = q * x + -0.4999817907810211f;
  return x * x * q + x;
}

// Near 0, where e^x - 1 has no digits, x + x²·P3(x) [8.9e-8 on [-1/2, 0]].
GOSPML_FN void expm1_neg(float x, float& m1, float& e) {
  e = exp_any(x);
  float q = x * 0.006807608529925346f + 0.04104248434305191f;
  q = q * x + 0.16656360030174255f;
  q = q * x + 0.4999946355819702f;
  q = x * x * q + x;
  m1 = x > -0.5f ? q : e - 1;
}
