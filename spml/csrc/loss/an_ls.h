// Smoothed targets: τ·sn + (1-τ)·sp, τ = pos_target where y = 1, known_target where y = -1, neg_target elsewhere.
#pragma once

template <class V>
struct AnLs : Logs<V> {
  V pos, neg, known;
  GOSPML_FN explicit AnLs(const double* a) : Logs<V>(a[3]), pos(V(a[0])), neg(V(a[1])), known(V(a[2])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const V t = select(y == V(1), pos, select(y == V(-1), known, neg)), f = V(1) - t;
    if (this->exact) return {c.cross(t, f), c.p - t};
    return {t * c.pos + f * c.neg, t * c.dpos + f * c.dneg};
  }
};
