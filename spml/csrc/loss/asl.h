// Asymmetric loss: n^γ⁺·(-log max(p, c)) where y = 1, p_m^γ⁻·(-log max(1-p_m, c)) elsewhere, p_m = max(p-m, 0).
#pragma once

template <class V>
struct Asl : Logs<V> {
  double gamma_pos, gamma_neg, margin, clamp;
  bool detach, shifted; // margin > 0
  GOSPML_FN explicit Asl(const double* a)
      : Logs<V>(a[5]),
        gamma_pos(a[0]),
        gamma_neg(a[1]),
        margin(a[2]),
        clamp(a[4]),
        detach(a[3] != 0),
        shifted(a[2] > 0) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma_pos != 0 || gamma_neg != 2 || clamp > 0 || !shifted || !detach) return false;
    constants();
    return true;
  }
  GOSPML_FN void constants() {
    this->exact = detach = shifted = true;
    gamma_pos = clamp = 0;
    gamma_neg = 2;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const V none(0), all(1), least(clamp), m(margin);
    const auto c = this->ce(z);
    const V pn = c.r * c.er;

    V pos = c.pos, dpos = c.dpos;
    if (clamp > 0) {
      const V x = clamp_min(c.p, least) + this->eps;
      pos = -log_pos(x);
      dpos = -select(c.p < least, none, pn * reciprocal(x));
    }
    if (gamma_pos != 0) {
      const V w = power(c.n, c.sp, gamma_pos);
      dpos = detach ? w * dpos : w * (dpos - V(gamma_pos) * c.p * pos);
      pos = w * pos;
    }

    V neg = c.neg, dneg = c.dneg;
    if (shifted || clamp > 0) {
      const V x = c.n + m, a = clamp_min(clamp_max(x, all), least) + this->eps;
      neg = -log_pos(a);
      dneg = pn * reciprocal(a);
      // Where x > 1, p_m^γ⁻ is 0.
      if (clamp > 0 || gamma_neg != 2) dneg = select(either(x > all, x < least), none, dneg);
    }
    if (gamma_neg != 0 && !shifted) {
      const V w = power(c.p, c.sn, gamma_neg);
      dneg = detach ? w * dneg : w * (dneg + V(gamma_neg) * c.n * neg);
      neg = w * neg;
    } else if (gamma_neg != 0) {
      const V pm = clamp_min(c.p - m, none);
      const auto easy = pm == none;
      V w = pm, dw = all; // w = pm^γ, dw = γ·pm^(γ-1)
      if (gamma_neg == 2) {
        w = pm * pm;
        dw = pm + pm;
      } else if (gamma_neg != 1) {
        const V hard = select(easy, all, pm);
        w = select(easy, none, exp_any(V(gamma_neg) * log_pos(hard)));
        dw = V(gamma_neg) * w * reciprocal(hard);
      }
      dneg = detach ? w * dneg : w * dneg + select(easy, none, dw * pn) * neg;
      neg = w * neg;
    }
    const auto is = y == V(1);
    return {select(is, pos, neg), select(is, dpos, dneg)};
  }
};
