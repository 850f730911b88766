// Focal: a⁺·n^γ·sn where y = 1, a⁻·p^γ·sp elsewhere; detach: the powers have no gradient.
#pragma once

template <class V>
struct Focal : Logs<V> {
  double gamma;
  V slope, pos_weight, neg_weight;
  GOSPML_FN explicit Focal(const double* a)
      : Logs<V>(a[4]), gamma(a[0]), slope(V(a[3] != 0 ? 0 : a[0])), pos_weight(V(a[1])), neg_weight(V(a[2])) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma != 2) return false;
    constants();
    return true;
  }
  GOSPML_FN void constants() {
    this->exact = true;
    gamma = 2;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto pos = y == V(1);
    // Both branches are w·x^γ·value with derivative w·x^γ·(slope + γ·rest·value) by s.
    const auto s = this->side(z, pos);
    const V f = select(pos, pos_weight, neg_weight) * power(s.x, s.lx, gamma);
    return {f * s.value, s.by_logit(pos, f * (s.slope + slope * s.rest * s.value))};
  }
};
