// Hill: focal with margin, (1-p_m)^γ·(-log p_m) with p_m = σ(z-m), where y = 1, sp where y = -1, else (λ-p)·p². margin
// = γ = 0 is plain sn.
#pragma once

template <class V>
struct Hill : Logs<V> {
  double gamma;
  V margin, slope, lam;
  GOSPML_FN explicit Hill(const double* a)
      : Logs<V>(a[3]), gamma(a[1]), margin(V(a[0])), slope(V(a[1])), lam(V(a[2])) {}
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
    const auto pos = y == V(1), neg = y == V(-1);
    const auto c = this->ce(select(pos, z - margin, z));
    const V w = power(c.n, c.sp, gamma), p2 = c.p * c.p;
    return {select(pos, w * c.pos, select(neg, c.neg, (lam - c.p) * p2)),
            select(pos, w * (c.dpos - slope * c.p * c.pos), select(neg, c.dneg, (V(2) * lam - V(3) * c.p) * p2 * c.n))};
  }
};
