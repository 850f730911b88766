// Assume negative: sn where y = 1, sp where y = -1, w·sp elsewhere. BCE and AN have w = 1, WAN 1/(C-1), DW any.
#pragma once

template <class V>
struct An : Logs<V> {
  V w;
  GOSPML_FN explicit An(const double* a) : Logs<V>(a[1]), w(V(a[0])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto pos = y == V(1);
    const auto known = either(pos, y == V(-1));
    const auto s = this->side(z, pos);
    const V k = select(known, V(1), w);
    return {k * s.value, select(pos, V(-1), k) * s.slope};
  }
};
