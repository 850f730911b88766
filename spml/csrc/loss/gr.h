// Generalised robust loss: v·[k̂·(1-p^q2)/q2 + (1-k̂)·(1-n^q3)/q3] for unknown labels, with constant k̂ = σ(w·p+b), v =
// e^(-(p-μ)²/2σ²).
#pragma once

template <class V>
struct Gr : Logs<V> {
  Surrogate<V> s1, s2, s3;
  V w, b, mu, inverse;
  GOSPML_FN explicit Gr(const double* a)
      : Logs<V>(a[7]),
        s1(a[4]),
        s2(a[5]),
        s3(a[6]),
        w(V(-a[0])),
        b(V(-a[1])),
        mu(V(a[2])),
        inverse(V(0.7071067811865476 / a[3])) {}
  GOSPML_FN bool common() {
    if (!this->exact || s1.at != 0 || s2.at == 0 || s2.at == 1 || s3.at != 1) return false;
    constants();
    return true;
  }
  GOSPML_FN void constants() {
    this->exact = true;
    s1.at = 0;
    s2.at = 2; // any but 0 and 1
    s3.at = 1;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto is = y == V(1), neg = y == V(-1);
    const V k = reciprocal(V(1) + exp_any(w * c.p + b)), d = (c.p - mu) * inverse, v = exp_neg(d * d);
    const auto up = s2(c.p, c.n, c.sn), down = s3(c.n, c.p, c.sp);
    const V vk = v * k, vf = v - vk;
    Term<V> pos{c.pos, c.dpos};
    if (s1.at != 0) pos = s1(c.p, c.n, c.sn);
    return {select(is, pos.value, select(neg, c.neg, vk * up.value + vf * down.value)),
            select(is, pos.grad, select(neg, c.dneg, vk * up.grad - vf * down.grad))};
  }
};
