// The functions that loss_math.h asks of lanes, from those of lanes_*.h. Polynomials are minimax fits (relative error
// of the fit alone in brackets), coefficients rounded to float.
#pragma once

#define FN inline __attribute__((always_inline))

// (e^f - 1 - f)/f² on ±ln 2 / 2 [1.3e-8 of e^f - 1].
FN Lanes expm1_core(Lanes f) {
  Lanes q = fma(f, Lanes(0.0013946439139544964), 0.008366577327251434);
  q = fma(q, f, 0.04166628047823906);
  q = fma(q, f, 0.1666654348373413);
  q = fma(q, f, 0.5);
  return fma(f * f, q, f);
}

// Beyond these a power of two leaves the normal floats; a clamp keeps NaN.
constexpr double kExpLow = -87.33654, kExpHigh = 88.0;

#ifndef GOSPML_TABLES
FN Lanes exp_clamped(Lanes x) {
  Lanes n;
  const Lanes f = reduced(x, n);
  return scaled(expm1_core(f) + Lanes(1.0), n);
}
#endif
FN Lanes exp_neg(Lanes x) { return exp_clamped(clamp_min(-x, Lanes(kExpLow))); }
FN Lanes exp_any(Lanes x) { return exp_clamped(clamp_max(clamp_min(x, Lanes(kExpLow)), Lanes(kExpHigh))); }
FN void expm1_neg(Lanes x, Lanes& m1, Lanes& e) {
  Lanes n;
  const Lanes f = reduced(clamp_min(x, Lanes(kExpLow)), n), s = power_of_two(n), c = expm1_core(f) * s;
  m1 = c + (s - Lanes(1.0));
  e = c + s;
}

#ifndef GOSPML_TABLES
// x + x²·P7(x) on [0, 1] [3.3e-8].
FN Lanes log1p_unit(Lanes x) {
  Lanes q = fma(x, Lanes(0.005364824552088976), -0.030065791681408882);
  q = fma(q, x, 0.07920453697443008);
  q = fma(q, x, -0.13753803074359894);
  q = fma(q, x, 0.191536545753479);
  q = fma(q, x, -0.24857163429260254);
  q = fma(q, x, 0.3332132399082184);
  q = fma(q, x, -0.49999648332595825);
  return fma(x * x, q, x);
}
#endif

// log m + k·ln 2, log m = t + t²·P7(t) with t = m - 1 [3.0e-8]. NaN has no mantissa, hence the last term.
FN Lanes log_pos(Lanes x) {
  Lanes k;
  const Lanes t = mantissa(x, k) - Lanes(1.0);
  Lanes q = fma(t, Lanes(0.08734843134880066), -0.14307521283626556);
  q = fma(q, t, 0.14917974174022675);
  q = fma(q, t, -0.16570508480072021);
  q = fma(q, t, 0.19962072372436523);
  q = fma(q, t, -0.25001755356788635);
  q = fma(q, t, 0.33333951234817505);
  q = fma(q, t, -0.49999991059303284);
  return fma(k, Lanes(0.6931471805599453), fma(t * t, q, t)) + x * Lanes(0.0);
}
#undef FN
