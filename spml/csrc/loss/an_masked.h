// AN whose unknown labels count only where the second labels are `keep`: IUN with the full labels (0), EN with its mask
// (1).
#pragma once

template <class V>
struct AnMasked : Logs<V> {
  V keep;
  GOSPML_FN explicit AnMasked(const double* a) : Logs<V>(a[1]), keep(V(a[0])) {}
  GOSPML_FN Term<V> operator()(V z, V y, V w) const {
    const auto pos = y == V(1);
    const auto counts = either(either(pos, y == V(-1)), w == keep);
    const auto s = this->side(z, pos);
    const V k = select(counts, V(1), V(0));
    return {k * s.value, select(pos, V(-1), k) * s.slope};
  }
};
