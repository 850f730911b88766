// The pointwise losses: for one logit and its label, the term and its derivative, in one pass, stable for |z| up to 1e4.
//
// No ATen, no STL: this file is compiled for single numbers (float64, CUDA) and for vectors of lanes (lanes_*.h, included
// before it). A functor is a template over the value type V and uses no ?: on values, only the named functions
//
//   select(mask, a, b)   clamp_min(x, lo)   clamp_max(x, hi)   absolute(x)   reciprocal(x)
//   exp_neg(x)  e^-x for x >= 0      exp_any(x)           log_pos(x)  for x > 0      log1p_unit(x)  for 0 <= x <= 1
//   expm1_neg(x)  for x <= 0, gives e^x - 1 and e^x
//
// and + - * and comparisons, whose result is a mask (combined by both, either, differ, asked by some). NaN in gives NaN out everywhere: multiply by 0 or 1, or select
// between terms that are both NaN. Conditions on parameters are plain `if`s: they are the same for all elements.
//
// Largest relative errors of the lanes' versions over every float of the range (TestLanesAccuracy): exp_neg and exp_any 9e-8 (2.2e-7 with
// AVX-512, which has a table), expm1_neg 1.0e-7, log_pos 1.2e-7, log1p_unit 1.3e-7 (2.0e-7 with AVX-512, 1.7e-7 without fused multiply-add),
// reciprocal 6e-8 (1.2e-7 with AVX-512).
//
// A loss is a struct template with
//   schema                     its parameters as an operator schema spells them, in the order of the constructor's array,
//                              behind which comes log_eps
//   F(const double* a)
//   operator()(V z, V y)       or (V z, V y, V w) for a loss of two label tensors
//   common()                   optional: where the parameters are the usual ones, sets them to constants, for which a loop is compiled, and returns true
// and one line in pointwise.h.
#pragma once

#if defined(__CUDACC__)
#define GOSPML_FN __host__ __device__ __forceinline__
#else
#define GOSPML_FN inline __attribute__((always_inline))
#endif

// ------------------------------------------------------------------------------------------------- single numbers
#define GOSPML_SCALAR(T, EXP, EXPM1, LOG, LOG1P)                                 \
  GOSPML_FN T select(bool m, T a, T b) { return m ? a : b; }                     \
  GOSPML_FN T clamp_min(T x, T lo) { return x < lo ? lo : x; }                   \
  GOSPML_FN T clamp_max(T x, T hi) { return x > hi ? hi : x; }                   \
  GOSPML_FN T absolute(T x) { return x < 0 ? -x : x; }                           \
  GOSPML_FN T reciprocal(T x) { return T(1) / x; }                               \
  GOSPML_FN T exp_neg(T x) { return EXP(-x); }                                   \
  GOSPML_FN T exp_any(T x) { return EXP(x); }                                    \
  GOSPML_FN T log_pos(T x) { return LOG(x); }                                    \
  GOSPML_FN T log1p_unit(T x) { return LOG1P(x); }                               \
  GOSPML_FN void expm1_neg(T x, T& m1, T& e) {                                   \
    m1 = EXPM1(x);                                                               \
    e = m1 + 1;                                                                  \
  }
GOSPML_FN bool both(bool a, bool b) { return a && b; }
GOSPML_FN bool either(bool a, bool b) { return a || b; }
GOSPML_FN bool differ(bool a, bool b) { return a != b; }
GOSPML_FN bool some(bool m) { return m; }
#if defined(__CUDACC__)
GOSPML_SCALAR(float, expf, expm1f, logf, log1pf)
GOSPML_SCALAR(double, exp, expm1, log, log1p)
#else
GOSPML_SCALAR(float, __builtin_expf, __builtin_expm1f, __builtin_logf, __builtin_log1pf)
GOSPML_SCALAR(double, __builtin_exp, __builtin_expm1, __builtin_log, __builtin_log1p)
#endif
#undef GOSPML_SCALAR

// ------------------------------------------------------------------------------------------------- building blocks
template <class V>
struct Term {
  V value, grad;
};

// p = σ(z), n = 1 - p = σ(-z), sp = softplus(z) = -log n, sn = softplus(-z) = -log p, from one e^-|z|.
template <class V>
struct Sigmoid {
  using Mask = decltype(V() >= V());
  V size, r, er, l; // |z|, σ(|z|), σ(-|z|), softplus(-|z|)
  Mask up;          // z >= 0
  V p, n, sp, sn;
  GOSPML_FN explicit Sigmoid(V z) {
    size = absolute(z);
    const V e = exp_neg(size);
    r = reciprocal(V(1) + e);
    er = e * r;
    l = log1p_unit(e);
    up = z >= V(0);
    sides();
  }
  // From σ(-|z|), which an earlier pass has kept.
  GOSPML_FN Sigmoid(V z, V kept) : size(absolute(z)), r(V(1) - kept), er(kept) {
    l = log1p_unit(er * reciprocal(r));
    up = z >= V(0);
    sides();
  }
  GOSPML_FN void sides() {
    const V far = l + size;
    p = select(up, r, er);
    n = select(up, er, r);
    sp = select(up, far, l);
    sn = select(up, l, far);
  }
  // t·sn + (1-t)·sp for a target t with rest = 1-t. Its derivative is p - t.
  GOSPML_FN V cross(V t, V rest) const { return l + size * select(up, rest, t); }
};

// Sigmoid with the two cross-entropy terms and their derivatives. eps = 0: -log p and -log n, exact. eps > 0: -log(p+eps)
// and -log(n+eps), as released code has them.
template <class V>
struct CrossEntropy : Sigmoid<V> {
  V pos, dpos, neg, dneg;
  GOSPML_FN CrossEntropy(V z, V eps, bool exact) : Sigmoid<V>(z) { terms(eps, exact); }
  GOSPML_FN CrossEntropy(V z, V kept, V eps, bool exact) : Sigmoid<V>(z, kept) { terms(eps, exact); }
  GOSPML_FN void terms(V eps, bool exact) {
    if (exact) {
      pos = this->sn;
      dpos = -this->n;
      neg = this->sp;
      dneg = this->p;
    } else {
      const V a = this->p + eps, b = this->n + eps, pn = this->p * this->n;
      pos = -log_pos(a);
      neg = -log_pos(b);
      dpos = -(pn * reciprocal(a));
      dneg = pn * reciprocal(b);
    }
  }
  // H(p) = p·(-log p) + n·(-log n).
  GOSPML_FN V entropy(bool exact) const {
    if (exact) return this->l + this->size * this->er;
    return this->p * pos + this->n * neg;
  }
  GOSPML_FN V dentropy(V z, bool exact) const {
    const V pn = this->r * this->er;
    if (exact) return -(z * pn);
    return pn * (pos - neg) + (this->p * dpos + this->n * dneg);
  }
};

// What a positive and a negative label share: with s = -z for a positive one and z else, the cross-entropy `value` (softplus(s) where exact),
// its derivative by s, x = σ(s), rest = σ(-s), lx = -log x.
template <class V>
struct Side {
  V value, slope, x, rest, lx;
  template <class M>
  GOSPML_FN Side(const CrossEntropy<V>& c, M pos, bool exact) {
    const auto far = differ(c.up, pos); // s >= 0, but for z = 0, where both are the same
    const V sum = c.l + c.size;
    x = select(far, c.r, c.er);
    rest = select(far, c.er, c.r);
    lx = select(far, c.l, sum);
    if (exact) {
      value = select(far, sum, c.l);
      slope = x;
    } else {
      value = select(pos, c.pos, c.neg);
      slope = select(pos, -c.dpos, c.dneg);
    }
  }
  // A derivative by s as one by z.
  template <class M>
  static GOSPML_FN V by_logit(M pos, V d) { return select(pos, -d, d); }
};

// The logarithms' epsilon, which every loss has.
template <class V>
struct Logs {
  static constexpr int logits = 1; // of the inputs of a pass (batch_math.h); the others are labels
  static constexpr bool kept = false, selects = false;
  V eps;
  bool exact;
  GOSPML_FN explicit Logs(double e) : eps(V(e)), exact(e == 0) {}
  GOSPML_FN CrossEntropy<V> ce(V z) const { return CrossEntropy<V>(z, eps, exact); }
  GOSPML_FN CrossEntropy<V> ce(V z, V kept) const { return CrossEntropy<V>(z, kept, eps, exact); }
  template <class M>
  GOSPML_FN Side<V> side(V z, M pos) const { return Side<V>(ce(z), pos, exact); }
};

// n^γ with its logarithm: n = e^-sp. Whole powers are products.
template <class V>
GOSPML_FN V power(V n, V sp, double gamma) {
  if (gamma == 0) return V(1);
  if (gamma == 1) return n;
  if (gamma == 2) return n * n;
  return exp_neg(V(gamma) * sp);
}

// Generalised cross-entropy (1 - p^q)/q and its derivative, from n and sn; sn for q = 0.
template <class V>
struct Surrogate {
  V q, by;
  double at;
  GOSPML_FN explicit Surrogate(double x) : q(V(-x)), by(V(x == 0 ? 0 : -1 / x)), at(x) {}
  // p and sn of one side; the derivative is with respect to that side's logit.
  GOSPML_FN Term<V> operator()(V p, V n, V sn) const {
    if (at == 0) return {sn, -n};
    if (at == 1) return {n, -(p * n)};
    V m1, e;
    expm1_neg(q * sn, m1, e);
    return {m1 * by, -(e * n)};
  }
};

// Where σ(z) leaves 0.
template <class V>
struct Underflow {
  static constexpr double logit = -88.72;
};
template <>
struct Underflow<double> {
  static constexpr double logit = -709.78;
};

// ------------------------------------------------------------------------------------------------- losses
// Assume negative: sn where y = 1, sp where y = -1, w·sp elsewhere. BCE and AN have w = 1, WAN 1/(C-1), DW any.
template <class V>
struct An : Logs<V> {
  static constexpr const char* schema = "float neg_weight=1.";
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

// Entropy maximisation: sn where y = 1, sp where y = -1, -α·H(p) elsewhere.
template <class V>
struct Em : Logs<V> {
  static constexpr const char* schema = "float alpha=0.2";
  V a;
  GOSPML_FN explicit Em(const double* p) : Logs<V>(p[1]), a(V(-p[0])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1);
    const auto known = either(pos, y == V(-1));
    const Side<V> s(c, pos, this->exact);
    return {select(known, s.value, a * c.entropy(this->exact)), select(known, s.by_logit(pos, s.slope), a * c.dentropy(z, this->exact))};
  }
};

// AN whose unknown labels count only where the second labels are `keep`: IUN with the full labels (0), EN with its mask (1).
template <class V>
struct AnMasked : Logs<V> {
  static constexpr const char* schema = "float keep=1.";
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

// Smoothed targets: τ·sn + (1-τ)·sp, τ = pos_target where y = 1, neg_target elsewhere.
template <class V>
struct AnLs : Logs<V> {
  static constexpr const char* schema = "float pos_target=0.9, float neg_target=0.1";
  V pos, neg;
  GOSPML_FN explicit AnLs(const double* a) : Logs<V>(a[2]), pos(V(a[0])), neg(V(a[1])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const V t = select(y == V(1), pos, neg), f = V(1) - t;
    if (this->exact) return {c.cross(t, f), c.p - t};
    return {t * c.pos + f * c.neg, t * c.dpos + f * c.dneg};
  }
};

// Entropy minimisation: λ·H(p) for unknown labels, plus with_an·sp.
template <class V>
struct EntMin : Logs<V> {
  static constexpr const char* schema = "float strength=0.01, float with_an=0.";
  V a, w;
  GOSPML_FN explicit EntMin(const double* p) : Logs<V>(p[2]), a(V(p[0])), w(V(p[1])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1), neg = y == V(-1);
    return {select(pos, c.pos, select(neg, c.neg, a * c.entropy(this->exact) + w * c.neg)),
            select(pos, c.dpos, select(neg, c.dneg, a * c.dentropy(z, this->exact) + w * c.dneg))};
  }
};

// EM with asymmetric pseudo-labels: y = -s < 0 is a negative with soft target s.
template <class V>
struct EmApl : Logs<V> {
  static constexpr const char* schema = "float alpha=0.2, float beta=0.02";
  V a, b;
  GOSPML_FN explicit EmApl(const double* p) : Logs<V>(p[2]), a(V(-p[0])), b(V(p[1])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1), soft = y < V(0);
    const V s = -(b * y), f = b - s;
    return {select(pos, c.pos, select(soft, s * c.pos + f * c.neg, a * c.entropy(this->exact))),
            select(pos, c.dpos, select(soft, s * c.dpos + f * c.dneg, a * c.dentropy(z, this->exact)))};
  }
};

// Focal: a⁺·n^γ·sn where y = 1, a⁻·p^γ·sp elsewhere; detach: the powers have no gradient.
template <class V>
struct Focal : Logs<V> {
  static constexpr const char* schema = "float gamma=2., float pos_weight=0.75, float neg_weight=0.25, float detach=0.";
  double gamma;
  V slope, pos_weight, neg_weight;
  GOSPML_FN explicit Focal(const double* a) : Logs<V>(a[4]), gamma(a[0]), slope(V(a[3] != 0 ? 0 : a[0])), pos_weight(V(a[1])), neg_weight(V(a[2])) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma != 2) return false;
    this->exact = true;
    gamma = 2;
    return true;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto pos = y == V(1);
    // Both branches are w·x^γ·value with derivative w·x^γ·(slope + γ·rest·value) by s.
    const auto s = this->side(z, pos);
    const V f = select(pos, pos_weight, neg_weight) * power(s.x, s.lx, gamma);
    return {f * s.value, s.by_logit(pos, f * (s.slope + slope * s.rest * s.value))};
  }
};

// Asymmetric loss: n^γ⁺·(-log max(p, c)) where y = 1, p_m^γ⁻·(-log max(1-p_m, c)) elsewhere, p_m = max(p-m, 0).
template <class V>
struct Asl : Logs<V> {
  static constexpr const char* schema = "float gamma_pos=0., float gamma_neg=2., float margin=0.2, float detach=1., float clamp=0.";
  double gamma_pos, gamma_neg, margin, clamp;
  bool detach, shifted; // margin > 0
  GOSPML_FN explicit Asl(const double* a) : Logs<V>(a[5]), gamma_pos(a[0]), gamma_neg(a[1]), margin(a[2]), clamp(a[4]), detach(a[3] != 0), shifted(a[2] > 0) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma_pos != 0 || gamma_neg != 2 || clamp > 0 || !shifted || !detach) return false;
    this->exact = detach = shifted = true;
    gamma_pos = clamp = 0;
    gamma_neg = 2;
    return true;
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

// Hill: focal with margin, (1-p_m)^γ·(-log p_m) with p_m = σ(z-m), where y = 1, else (λ-p)·p². margin = γ = 0 is plain sn.
template <class V>
struct Hill : Logs<V> {
  static constexpr const char* schema = "float margin=1., float gamma=2., float lam=1.5";
  double gamma;
  V margin, slope, lam;
  GOSPML_FN explicit Hill(const double* a) : Logs<V>(a[3]), gamma(a[1]), margin(V(a[0])), slope(V(a[1])), lam(V(a[2])) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma != 2) return false;
    this->exact = true;
    gamma = 2;
    return true;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto pos = y == V(1);
    const auto c = this->ce(select(pos, z - margin, z));
    const V w = power(c.n, c.sp, gamma), p2 = c.p * c.p;
    return {select(pos, w * c.pos, (lam - c.p) * p2),
            select(pos, w * (c.dpos - slope * c.p * c.pos), (V(2) * lam - V(3) * c.p) * p2 * c.n)};
  }
};

// SPLC: focal⁺ of z-m where y = 1 and of z-m' where y = 0 and σ(z) > τ, else focal⁻ of z, or Hill's negative branch.
template <class V>
struct Splc : Logs<V> {
  static constexpr const char* schema = "float tau=0.6, float margin=1., float gamma=2., float corrected_margin=0., float hill=0., float lam=1.5";
  double gamma;
  bool hill;
  V threshold, margin, corrected_margin, slope, lam;
  // σ(z) > τ is z > log(τ/(1-τ)).
  GOSPML_FN static double logit(double tau) {
    if (tau >= 1) return 1e300 * 1e300;
    if (tau <= 0) return Underflow<V>::logit;
    return log_pos(tau / (1 - tau));
  }
  GOSPML_FN explicit Splc(const double* a)
      : Logs<V>(a[6]), gamma(a[2]), hill(a[4] != 0), threshold(V(logit(a[0]))), margin(V(a[1])), corrected_margin(V(a[3])), slope(V(a[2])), lam(V(a[5])) {}
  GOSPML_FN bool common() {
    if (!this->exact || gamma != 2 || hill) return false;
    this->exact = true;
    gamma = 2;
    hill = false;
    return true;
  }
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto observed = y == V(1);
    const auto corrected = both(y == V(0), z > threshold);
    const V off = select(observed, margin, select(corrected, corrected_margin, V(0)));
    const auto pos = either(observed, corrected);
    const auto c = this->ce(z - off);
    const Side<V> s(c, pos, this->exact);
    const V f = power(s.x, s.lx, gamma), value = f * s.value, grad = s.by_logit(pos, f * (s.slope + slope * s.rest * s.value));
    if (!hill) return {value, grad};
    const V p2 = c.p * c.p;
    return {select(pos, value, (lam - c.p) * p2), select(pos, grad, (V(2) * lam - V(3) * c.p) * p2 * c.n)};
  }
};

// Generalised robust loss: v·[k̂·(1-p^q2)/q2 + (1-k̂)·(1-n^q3)/q3] for unknown labels, with constant k̂ = σ(w·p+b), v = e^(-(p-μ)²/2σ²).
template <class V>
struct Gr : Logs<V> {
  static constexpr const char* schema = "float w=0., float b=-2., float mu=0.5, float sigma=2., float q1=0., float q2=0.01, float q3=1.";
  Surrogate<V> s1, s2, s3;
  V w, b, mu, inverse;
  GOSPML_FN explicit Gr(const double* a) : Logs<V>(a[7]), s1(a[4]), s2(a[5]), s3(a[6]), w(V(-a[0])), b(V(-a[1])), mu(V(a[2])), inverse(V(0.7071067811865476 / a[3])) {}
  GOSPML_FN bool common() {
    if (!this->exact || s1.at != 0 || s2.at == 0 || s2.at == 1 || s3.at != 1) return false;
    this->exact = true;
    s1.at = 0;
    s2.at = 2; // any but 0 and 1
    s3.at = 1;
    return true;
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

// ------------------------------------------------------------------------------------------------- loops
// Calls body with f, whose conditions on parameters are constants of the compiled code where the parameters are the usual ones.
template <class F, class Body>
GOSPML_FN auto with_constants(F f, const Body& body) {
  if constexpr (requires { f.common(); }) {
    F g = f;
    if (g.common()) return body(g);
  }
  if constexpr (requires { f.exact; }) {
    if (f.exact) {
      f.exact = true;
      return body(f);
    }
    f.exact = false;
  }
  return body(f);
}
