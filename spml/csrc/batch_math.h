// Losses whose terms depend on the whole batch, or on more than one logit: what one entry contributes, in the letters
// and with the rules of loss_math.h (included before it). A functor is one pass over the entries:
//
//   F(const double* a)
//   operator()(const V* in, V* out, V* sum)     adds to sum, sets out
//
// with the numbers of inputs, outputs and sums in the table of batchwise.h. Scales and the slopes of batch-wide terms
// are parameters: where a slope depends on a sum over the batch, the pass that computes it comes first. Where it can,
// that pass (Keep) leaves σ(-|z|) in the outputs, from which the second (…Kept) has everything without another
// exponential.
#pragma once

// Σ σ(z) of the labels that are not known to be negative: in z, y. Those have no part in the number of positives that
// is expected.
template <class V>
struct Count {
  static constexpr int logits = 1;
  static constexpr bool kept = false, selects = false;
  GOSPML_FN explicit Count(const double*) {}
  GOSPML_FN void operator()(const V* in, V*, V* sum) const {
    const V e = exp_neg(absolute(in[0])), r = reciprocal(V(1) + e), er = e * r;
    sum[0] = sum[0] + select(in[1] == V(-1), er * V(0), select(in[0] >= V(0), r, er));
  }
};

// The same, and σ(-|z|) into the output.
template <class V>
struct Keep {
  static constexpr int logits = 1;
  static constexpr bool kept = false, selects = false;
  GOSPML_FN explicit Keep(const double*) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    const V e = exp_neg(absolute(in[0])), r = reciprocal(V(1) + e), er = e * r;
    sum[0] = sum[0] + select(in[1] == V(-1), er * V(0), select(in[0] >= V(0), r, er));
    out[0] = er;
  }
};

// Expected positive regularisation: in z, y; sn where y = 1, sp where y = -1. The regulariser's derivative is
// slope·p·n, but 0 where y = -1.
template <class V>
struct Epr : Logs<V> {
  V scale, slope;
  GOSPML_FN explicit Epr(const double* a) : Logs<V>(a[0]), scale(V(a[1])), slope(V(a[2])) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const { terms(this->ce(in[0]), in[1], out, sum); }
  GOSPML_FN void terms(const CrossEntropy<V>& c, V y, V* out, V* sum) const {
    const auto pos = y == V(1), neg = y == V(-1);
    const V none = c.pos * V(0);
    sum[0] = sum[0] + select(pos, c.pos, select(neg, c.neg, none));
    out[0] = scale * select(pos, c.dpos, select(neg, c.dneg, none)) + select(neg, V(0), slope) * (c.r * c.er);
  }
};
template <class V>
struct EprKept : Epr<V> {
  static constexpr bool kept = true;
  using Epr<V>::Epr;
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    // Few entries have a label that counts; NaN goes on through the regulariser and the kept value.
    if (some(either(in[1] == V(1), in[1] == V(-1)))) {
      this->terms(this->ce(in[0], out[0]), in[1], out, sum);
    } else {
      sum[0] = sum[0] + out[0] * V(0);
      out[0] = this->slope * ((V(1) - out[0]) * out[0]);
    }
  }
};

// Vision-language pseudo-labels: in z, y, ℓ.
template <class V>
struct Vlpl : Logs<V> {
  V scale, alpha, beta, gamma, rho, rest;
  bool undefined; // a negative pseudo-label counts as none
  GOSPML_FN explicit Vlpl(const double* a)
      : Logs<V>(a[0]),
        scale(V(a[1])),
        alpha(V(-a[2])),
        beta(V(a[3])),
        gamma(V(a[4])),
        rho(V(a[5])),
        rest(V(1 - a[5])),
        undefined(a[4] == 0 && a[5] == 1) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    const auto c = this->ce(in[0]);
    const auto pos = in[1] == V(1), neg = in[1] == V(-1), up = in[2] == V(1), down = in[2] == V(-1);
    V value = alpha * c.entropy(this->exact), grad = alpha * c.dentropy(in[0], this->exact);
    if (!undefined) {
      value = select(down, gamma * (rho * c.neg + rest * c.pos), value);
      grad = select(down, gamma * (rho * c.dneg + rest * c.dpos), grad);
    }
    value = select(up, beta * (rho * c.pos + rest * c.neg), value);
    grad = select(up, beta * (rho * c.dpos + rest * c.dneg), grad);
    sum[0] = sum[0] + select(pos, c.pos, select(neg, c.neg, value));
    out[0] = scale * select(pos, c.dpos, select(neg, c.dneg, grad));
  }
};

// Generalised pseudo-label robust loss: in z, y, ℓ. The curves k̂ and v are constants of the gradient.
template <class V>
struct Gpr : Logs<V> {
  V scale, slope, w, b, mu, iv, q2, q3, i2, i3, lo, hi, rho, rest;
  int how2, how3; // exponent 0, 1 or any
  static GOSPML_FN int kind(double q) { return q == 0 ? 0 : q == 1 ? 1 : 2; }
  static GOSPML_FN double inverse(double q) { return q == 0 ? 0 : 1 / q; }
  GOSPML_FN explicit Gpr(const double* a)
      : Logs<V>(a[0]),
        scale(V(a[1])),
        slope(V(a[2])),
        w(V(a[3])),
        b(V(a[4])),
        mu(V(a[5])),
        iv(V(-0.5 / (a[6] * a[6]))),
        q2(V(-a[7])),
        q3(V(-a[8])),
        i2(V(-inverse(a[7]))),
        i3(V(-inverse(a[8]))),
        lo(V(a[9])),
        hi(V(a[10])),
        rho(V(a[11])),
        rest(V(1 - a[11])),
        how2(kind(a[7])),
        how3(kind(a[8])) {}
  // (1-x^q)/q of x = e^-s, and x^q.
  GOSPML_FN static void power(int how, V s, V x, V rest, V q, V i, V& value, V& xq) {
    if (how == 0) {
      value = s;
      xq = V(1);
    } else if (how == 1) {
      value = rest;
      xq = x;
    } else {
      V m1;
      expm1_neg(q * s, m1, xq);
      value = m1 * i;
    }
  }
  GOSPML_FN bool common() {
    if (!this->exact || how2 != 2 || how3 != 1) return false;
    constants();
    return true;
  }
  GOSPML_FN void constants() {
    this->exact = true;
    how2 = 2;
    how3 = 1;
  }
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const { terms(this->ce(in[0]), in, out, sum); }
  GOSPML_FN void terms(const CrossEntropy<V>& c, const V* in, V* out, V* sum) const {
    const auto pos = in[1] == V(1), neg = in[1] == V(-1), up = in[2] == V(1), down = in[2] == V(-1);
    const V d = c.p - mu, v = exp_any(d * d * iv);
    const V t = w * c.p + b, e = exp_neg(absolute(t)), r = reciprocal(V(1) + e);
    const V k = select(t >= V(0), r, e * r);
    V a2, p2, a3, n3;
    power(how2, c.sn, c.p, c.n, q2, i2, a2, p2);
    power(how3, c.sp, c.n, c.p, q3, i3, a3, n3);
    const V other = V(1) - k, v4 = clamp_max(clamp_min(V(1) - v, lo), hi);
    const V value = select(up, v4 * (rho * c.pos + rest * c.neg), select(down, v * c.neg, v * (k * a2 + other * a3)));
    const V grad = select(up, v4 * (rho * c.dpos + rest * c.dneg),
                          select(down, v * c.dneg, v * (other * n3 * c.p - k * p2 * c.n)));
    sum[0] = sum[0] + select(pos, c.pos, select(neg, c.neg, value));
    out[0] = scale * select(pos, c.dpos, select(neg, c.dneg, grad)) + select(neg, V(0), slope) * (c.r * c.er);
  }
};
template <class V>
struct GprKept : Gpr<V> {
  static constexpr bool kept = true;
  using Gpr<V>::Gpr;
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const { this->terms(this->ce(in[0], out[0]), in, out, sum); }
};

// Regularised online label estimation: in z, u, y; out both gradients. Each side's cross term takes the other as a
// constant.
template <class V>
struct Role : Logs<V> {
  static constexpr int logits = 2;
  V scale, slope_z, slope_u;
  GOSPML_FN explicit Role(const double* a) : Logs<V>(a[0]), scale(V(a[1])), slope_z(V(a[2])), slope_u(V(a[3])) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    terms(this->ce(in[0]), this->ce(in[1]), in[2], out, sum);
  }
  GOSPML_FN void terms(const CrossEntropy<V>& c, const CrossEntropy<V>& d, V y, V* out, V* sum) const {
    const auto pos = y == V(1), neg = y == V(-1);
    const V rz = select(neg, V(0), slope_z) * (c.r * c.er), ru = select(neg, V(0), slope_u) * (d.r * d.er);
    if (this->exact) {
      // The label counts for both sides: towards 1, towards 0 or not at all.
      const auto known = either(pos, neg);
      const Side<V> s(c, pos, true), t(d, pos, true);
      const V none = c.l * V(0) + d.l * V(0), sz = select(known, s.slope, none), su = select(known, t.slope, none);
      sum[0] = sum[0] + select(known, s.value + t.value, none) + (c.cross(d.p, d.n) + d.cross(c.p, c.n));
      const V apart = c.p - d.p;
      out[0] = scale * (s.by_logit(pos, sz) + apart) + rz;
      out[1] = scale * (t.by_logit(pos, su) - apart) + ru;
      return;
    }
    const V none = c.pos * V(0) + d.pos * V(0);
    sum[0] = sum[0] + select(pos, c.pos + d.pos, select(neg, c.neg + d.neg, none)) + (d.p * c.pos + d.n * c.neg) +
             (c.p * d.pos + c.n * d.neg);
    out[0] = scale * (select(pos, c.dpos, select(neg, c.dneg, none)) + d.p * c.dpos + d.n * c.dneg) + rz;
    out[1] = scale * (select(pos, d.dpos, select(neg, d.dneg, none)) + c.p * d.dpos + c.n * d.dneg) + ru;
  }
};
template <class V>
struct RoleKept : Role<V> {
  static constexpr bool kept = true;
  using Role<V>::Role;
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    this->terms(this->ce(in[0], out[0]), this->ce(in[1], out[1]), in[2], out, sum);
  }
};

// Pseudo-labelling consistency: in z, zs, y; sums AN's terms, the masked cross-entropy of the strong view, and the
// mask; out AN's gradient, scaled, and the strong view's, which waits for the number of entries.
template <class V>
struct Plc : Logs<V> {
  static constexpr int logits = 2;
  V scale, delta, low;
  bool paper; // unknown labels only, p alone
  GOSPML_FN explicit Plc(const double* a)
      : Logs<V>(a[0]), scale(V(a[1])), delta(V(a[2])), low(V(1 - a[2])), paper(a[3] != 0) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    const auto c = this->ce(in[0]), s = this->ce(in[1]);
    const auto pos = in[2] == V(1);
    V a = c.p, m;
    if (!paper) a = a + in[2];
    const auto hard = a >= delta;
    if (paper)
      m = select(in[2] == V(0), select(hard, V(1), select(a <= low, V(1), V(0))), V(0));
    else
      m = select(hard, V(1), select(a < low, V(1), V(0)));
    sum[0] = sum[0] + select(pos, c.pos, c.neg);
    sum[1] = sum[1] + m * select(hard, s.pos, s.neg);
    sum[2] = sum[2] + m;
    out[0] = scale * select(pos, c.dpos, c.dneg);
    out[1] = m * select(hard, s.dpos, s.dneg);
  }
};

// Large loss: in z, y; out AN's gradient and the key that the selection goes by: the term of an unknown label. Other
// labels have 0·term in the released selection, else what stands below everything.
template <class V>
struct Large : Logs<V> {
  static constexpr bool selects =
      true; // the second output is not stored by the CPU's loop but compared with the least key
  V scale, below;
  bool released;
  GOSPML_FN explicit Large(const double* a) : Logs<V>(a[0]), scale(V(a[1])), below(V(-1e38)), released(a[2] != 0) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    const auto pos = in[1] == V(1);
    const auto s = this->side(in[0], pos);
    sum[0] = sum[0] + s.value;
    out[0] = scale * s.by_logit(pos, s.slope);
    out[1] = select(in[1] == V(0), s.value, released ? s.value * V(0) : below);
  }
};
