// Entropy minimisation: λ·H(p) for unknown labels, plus with_an·sp.
#pragma once

template <class V>
struct EntMin : Logs<V> {
  V a, w;
  GOSPML_FN explicit EntMin(const double* p) : Logs<V>(p[2]), a(V(p[0])), w(V(p[1])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1), neg = y == V(-1);
    return {select(pos, c.pos, select(neg, c.neg, a * c.entropy(this->exact) + w * c.neg)),
            select(pos, c.dpos, select(neg, c.dneg, a * c.dentropy(z, this->exact) + w * c.dneg))};
  }
};
