// The pointwise losses: for one logit and its label, the term and its derivative, in one pass, stable for |z| up to 1e4.
//
// No ATen, no STL: this file is compiled for single numbers (float64, CUDA) and for vectors of lanes (lanes_*.h, included
// before it). A functor is a template over the value type V and uses no ?: on values, only the named functions
//
//   select(mask, a, b)   clamp_min(x, lo)   clamp_max(x, hi)   absolute(x)   reciprocal(x)
//   exp_neg(x)  e^-x for x >= 0      exp_any(x)           log_pos(x)  for x > 0      log1p_unit(x)  for 0 <= x <= 1
//   expm1_neg(x)  for x <= 0, gives e^x - 1 and e^x
//
// and + - * and comparisons, whose result is a mask (combined by &). NaN in gives NaN out everywhere: multiply by 0 or 1, or select
// between terms that are both NaN. Conditions on parameters are plain `if`s: they are the same for all elements.
//
// Errors in float32 against exact arithmetic (over all floats of the range, in the lanes' versions): exp 1.2e-7 relative,
// log1p_unit and log_pos 1.2e-7 relative, reciprocal 1.2e-7; expm1_neg 2e-7.
//
// A loss is a struct template with
//   schema                     its parameters as an operator schema spells them, in the order of the constructor's array,
//                              behind which comes log_eps
//   F(const double* a)
//   operator()(V z, V y)       or (V z, V y, V w) for a loss of two label tensors
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

// p = σ(z), n = 1 - p = σ(-z), sp = softplus(z) = -log n, sn = softplus(-z) = -log p.
template <class V>
struct Sigmoid {
  V p, n, sp, sn;
  GOSPML_FN explicit Sigmoid(V z) {
    const V e = exp_neg(absolute(z)), r = reciprocal(V(1) + e), er = e * r, l = log1p_unit(e);
    const auto up = z >= V(0);
    p = select(up, r, er);
    n = select(up, er, r);
    sp = clamp_min(z, V(0)) + l;
    sn = clamp_min(-z, V(0)) + l;
  }
};

// Sigmoid with the two cross-entropy terms and their derivatives. eps = 0: -log p and -log n, exact. eps > 0: -log(p+eps)
// and -log(n+eps), as released code has them.
template <class V>
struct CrossEntropy : Sigmoid<V> {
  V pos, dpos, neg, dneg;
  GOSPML_FN CrossEntropy(V z, V eps, bool exact) : Sigmoid<V>(z) {
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
  GOSPML_FN V entropy() const { return this->p * pos + this->n * neg; }
  GOSPML_FN V dentropy(V z, bool exact) const {
    const V pn = this->p * this->n;
    if (exact) return -(z * pn);
    return pn * (pos - neg) + (this->p * dpos + this->n * dneg);
  }
};

// The logarithms' epsilon, which every loss has.
template <class V>
struct Logs {
  V eps;
  bool exact;
  GOSPML_FN explicit Logs(double e) : eps(V(e)), exact(e == 0) {}
  GOSPML_FN CrossEntropy<V> ce(V z) const { return CrossEntropy<V>(z, eps, exact); }
};

// ------------------------------------------------------------------------------------------------- losses
// Assume negative: sn where y = 1, sp where y = -1, w·sp elsewhere. BCE and AN have w = 1, WAN 1/(C-1), DW any.
template <class V>
struct An : Logs<V> {
  static constexpr const char* schema = "float neg_weight=1.";
  V w;
  GOSPML_FN explicit An(const double* a) : Logs<V>(a[1]), w(V(a[0])) {}
  GOSPML_FN Term<V> operator()(V z, V y) const {
    const auto c = this->ce(z);
    const auto pos = y == V(1);
    const V k = select(y == V(-1), V(1), w);
    return {select(pos, c.pos, k * c.neg), select(pos, c.dpos, k * c.dneg)};
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
    const auto pos = y == V(1), neg = y == V(-1);
    return {select(pos, c.pos, select(neg, c.neg, a * c.entropy())),
            select(pos, c.dpos, select(neg, c.dneg, a * c.dentropy(z, this->exact)))};
  }
};
