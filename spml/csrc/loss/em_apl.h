// EM with asymmetric pseudo-labels: y = -s < 0 is a negative with soft target s, y = -2 one that is known.
#pragma once

template <class V>
struct EmApl : Logs<V> {
  V a, b;
  GOSPML_FN explicit EmApl(const double* p) : Logs<V>(p[2]), a(V(-p[0])), b(V(p[1])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1), soft = y < V(0), known = y == V(-2);
    const V s = -(b * y), f = b - s;
    const V value = select(soft, s * c.pos + f * c.neg, a * c.entropy(this->exact));
    const V grad = select(soft, s * c.dpos + f * c.dneg, a * c.dentropy(z, this->exact));
    return {select(pos, c.pos, select(known, c.neg, value)), select(pos, c.dpos, select(known, c.dneg, grad))};
  }
};
