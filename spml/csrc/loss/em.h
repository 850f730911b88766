// Entropy maximisation: sn where y = 1, sp where y = -1, -α·H(p) elsewhere.
#pragma once

template <class V>
struct Em : Logs<V> {
  V a;
  GOSPML_FN explicit Em(const double* p) : Logs<V>(p[1]), a(V(-p[0])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1);
    const auto known = either(pos, y == V(-1));
    const Side<V> s(c, pos, this->exact);
    return {select(known, s.value, a * c.entropy(this->exact)),
            select(known, s.by_logit(pos, s.slope), a * c.dentropy(z, this->exact))};
  }
};
