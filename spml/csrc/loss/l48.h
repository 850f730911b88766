// Known negatives and groups: second labels q are the scores of the photo's group, below 0 where it has none.
//   base 0: sn where y = 1, a·sp where y = -1, unknown·sp elsewhere
//   base 1: the same, but unknown·H(p) elsewhere and exact sn and sp
//   base 2: τ·sn + (1-τ)·sp, τ = 1 - target where y = 1, else target
//   base 3: (a-1)·sp where y = -1, which is what a adds to another loss
//
// plus b·sp (exact) where y = -1 and group·(q·sn + (1-q)·sp) (exact).
#pragma once

template <class V>
struct L48 : Logs<V> {
  int base;
  V unknown, target, a, b, group;
  bool grouped;
  GOSPML_FN explicit L48(const double* p)
      : Logs<V>(p[6]),
        base(static_cast<int>(p[0])),
        unknown(V(p[1])),
        target(V(p[2])),
        a(V(p[3])),
        b(V(p[4])),
        group(V(p[5])),
        grouped(p[5] != 0) {}
  GOSPML_FN Term<V> operator()(V z, V y, V q) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1), neg = y == V(-1);
    const V none = c.l * V(0);
    V value = none, grad = none;
    if (base == 0) {
      const Side<V> s(c, pos, this->exact);
      const V k = select(pos, V(1), select(neg, a, unknown));
      value = k * s.value;
      grad = s.by_logit(pos, k * s.slope);
    } else if (base == 1) {
      value = select(pos, c.sn, select(neg, a * c.sp, unknown * c.entropy(this->exact)));
      grad = select(pos, -c.n, select(neg, a * c.p, unknown * c.dentropy(z, this->exact)));
    } else if (base == 2) {
      const V t = select(pos, V(1) - target, target), f = V(1) - t, k = select(neg, a, V(1));
      if (this->exact) {
        value = k * c.cross(t, f);
        grad = k * (c.p - t);
      } else {
        value = k * (t * c.pos + f * c.neg);
        grad = k * (t * c.dpos + f * c.dneg);
      }
    } else {
      value = select(neg, (a - V(1)) * c.neg, none);
      grad = select(neg, (a - V(1)) * c.dneg, none);
    }
    value = value + select(neg, b * c.sp, none);
    grad = grad + select(neg, b * c.p, none);
    if (grouped) {
      const auto in = q >= V(0);
      value = value + select(in, group * c.cross(q, V(1) - q), none);
      grad = grad + select(in, group * (c.p - q), none);
    }
    return {value, grad};
  }
};
