// SPLC: focal⁺ of z-m where y = 1 and of z-m' where y = 0 and σ(z) > τ, else focal⁻ of z, or Hill's branches for
// unknown and known negatives.
#pragma once

template <class V>
struct Splc : Logs<V> {
  double gamma;
  bool hill;
  V threshold, margin, corrected_margin, slope, lam;
  // σ(z) > τ is z > log(τ/(1-τ)).
  GOSPML_FN static double logit(double tau) {
    if (tau >= 1) return 1e300 * 1e300;
    if (tau <= 0) return Underflow<V>::logit;
    return log_pos(tau / (1 - tau));
  }
  GOSPML_FN explicit Splc(const double* a)
      : Logs<V>(a[6]),
        gamma(a[2]),
        hill(a[4] != 0),
        threshold(V(logit(a[0]))),
        margin(V(a[1])),
        corrected_margin(V(a[3])),
        slope(V(a[2])),
        lam(V(a[5])) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma != 2 || hill) return false;
    constants();
    return true;
  }
  GOSPML_FN void constants() {
    this->exact = true;
    gamma = 2;
    hill = false;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto observed = y == V(1);
    const auto corrected = both(y == V(0), z > threshold);
    const V off = select(observed, margin, select(corrected, corrected_margin, V(0)));
    const auto pos = either(observed, corrected);
    const auto c = this->ce(z - off);
    const Side<V> s(c, pos, this->exact);
    const V f = power(s.x, s.lx, gamma), value = f * s.value,
            grad = s.by_logit(pos, f * (s.slope + slope * s.rest * s.value));
    if (!hill) return {value, grad};
    const V p2 = c.p * c.p;
    const auto neg = y == V(-1);
    return {select(pos, value, select(neg, c.neg, (lam - c.p) * p2)),
            select(pos, grad, select(neg, c.dneg, (V(2) * lam - V(3) * c.p) * p2 * c.n))};
  }
};
